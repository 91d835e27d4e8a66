# The environment of `make setup` in a container. The tests have no Docker: this file is read, not built, by them.
#
#   docker build -t fp3o .
#   mkdir -p runs && docker run --rm -v "$PWD/runs:/fp3o/runs" fp3o fp3o train matrix/climbing/full/mappo --out runs
#     (the container's user has the number 1000; where yours has another: `chmod a+rwx runs` first)
#   docker run --rm --gpus all … (x86-64, with NVIDIA's container toolkit) trains on the GPU
FROM python:3.12-slim
# A compiler for compiled updates, EGL for films of MuJoCo, git to name the commit in run.json.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git make libegl1 libgl1-mesa-dri \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 fp3o && install --directory --owner fp3o /fp3o
USER fp3o
WORKDIR /fp3o
COPY --chown=fp3o . .
RUN make setup
ENV PATH=/fp3o/.venv/bin:$PATH
CMD ["fp3o", "--help"]
