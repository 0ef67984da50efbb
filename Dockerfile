# The laboratory, with weft-link beside it. An image of weft-link alone: packaging/Dockerfile.
# docker build -t weftway . && docker run --rm -v "$PWD:/work" weftway compare wifi-lte --out out
# The backend `kernel` and `weft emulate` also need: --privileged --device /dev/net/tun
FROM rust:1-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip
COPY . /src
RUN pip wheel --break-system-packages --no-deps --wheel-dir /dist /src /src/crates/program

FROM python:3.13-slim-bookworm
RUN --mount=from=build,source=/dist,target=/dist pip install --no-cache-dir /dist/*.whl
WORKDIR /work
ENTRYPOINT ["weft"]
