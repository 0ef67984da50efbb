# docker build -t weftway . && docker run --rm -v "$PWD:/work" weftway compare wifi-lte --out out
# The backend `kernel` and `weft emulate` also need: --privileged --device /dev/net/tun
FROM rust:1-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip
COPY . /src
RUN pip wheel --break-system-packages --no-deps --wheel-dir /dist /src

# The relay alone, without root and without what only the laboratory needs (docs/how-to/service.md):
# docker build --target relay -t weft-relay .
FROM python:3.13-slim-bookworm AS relay
RUN pip install --no-cache-dir 'prometheus-client>=0.22' 'rich>=14' 'typer>=0.16,<0.29'
RUN --mount=from=build,source=/dist,target=/dist pip install --no-cache-dir --no-deps /dist/*.whl
RUN useradd --uid 10001 weft && install -d -o weft -g weft -m 0700 /data
ENV XDG_CONFIG_HOME=/data XDG_STATE_HOME=/data
VOLUME /data
WORKDIR /data
USER weft
EXPOSE 4433/udp
STOPSIGNAL SIGINT
ENTRYPOINT ["weft"]
CMD ["relay", "--listen", "4433"]

FROM python:3.13-slim-bookworm
RUN --mount=from=build,source=/dist,target=/dist pip install --no-cache-dir /dist/*.whl
WORKDIR /work
ENTRYPOINT ["weft"]
