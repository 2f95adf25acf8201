# One image for every process of Fanfold: `api` (the default), `worker`, `assembler`, `migrate`.

FROM python:3.13-slim-trixie AS build
COPY requirements/runtime.txt /tmp/
RUN python -m venv /opt/fanfold \
    && /opt/fanfold/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /tmp/runtime.txt \
    && /opt/fanfold/bin/pip uninstall --yes pip

FROM python:3.13-slim-trixie
# What WeasyPrint loads from the system, and one font family.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        fonts-dejavu-core libharfbuzz-subset0 libpangoft2-1.0-0 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --home-dir /nonexistent fanfold
COPY --from=build /opt/fanfold /opt/fanfold
WORKDIR /srv
COPY api/ api/
COPY assembler/ assembler/
COPY fanfold/ fanfold/
COPY renderer/ renderer/
COPY runtime/ runtime/
COPY schema/ schema/
COPY worker/ worker/
# Whatever modes the checkout had, the image's user reads them; it may not write byte code later.
RUN chmod -R a+rX . \
    && python -m compileall -q .
ENV PATH=/opt/fanfold/bin:$PATH \
    PYTHONPATH=/srv \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["python", "-m", "fanfold", "health"]
ENTRYPOINT ["python", "-m", "fanfold"]
CMD ["api", "--host", "0.0.0.0", "--port", "8000"]
