# The image of tasks: Debian with tools that most projects need. npm may install an agent on top.
FROM debian:trixie-slim
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        bash build-essential ca-certificates curl git less nodejs npm openssh-client procps \
        python3 python3-pip python3-venv ripgrep \
    && rm -rf /var/lib/apt/lists/*
# The image has no other user of its Python, so pip may install into it.
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore
