"""One HTML file with everything: scorecard, tables, figures and a section per cell; opens from disk, offline."""
