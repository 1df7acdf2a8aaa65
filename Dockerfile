# The command `mnemon` with its server: docs/server.md says how it is run.
FROM rust:1.95-slim-trixie AS build
WORKDIR /mnemon
COPY . .
RUN cargo build --release --locked --package mnemon-cli

FROM debian:trixie-slim
# For the health check. Any version of it does.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends wget && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 7411 --create-home mnemon && install --directory --owner mnemon /data
COPY --from=build /mnemon/target/release/mnemon /usr/local/bin/
USER 7411
VOLUME /data
EXPOSE 7411
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["wget", "--quiet", "--output-document=-", "http://127.0.0.1:7411/health"]
ENTRYPOINT ["mnemon"]
CMD ["serve", "--db", "/data/memory.redb", "--listen", "0.0.0.0:7411", "--tokens", "/etc/mnemon/tokens.toml"]
