"""One short script per figure: reads runs, writes pdf, png and the plotted data as csv.

python -m paper_figures --suite paper --artefact figure-mamujoco --out results/paper/figures
"""
