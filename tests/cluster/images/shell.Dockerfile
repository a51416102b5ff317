# An app that knows nothing of claimq: a shell and curl, as anybody would install them.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends curl && rm -rf /var/lib/apt/lists/*
USER 65532:65532
CMD ["/bin/sh"]
