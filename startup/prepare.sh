#!/bin/bash
# What loader.service does before each start of its container; the unit sets these variables.
set -euo pipefail
: "${IMAGE:?}" "${REGISTRY:?}" "${HEALTH_PORT:?}" "${HEALTH_RANGES?}"
export PATH="$PATH:/usr/sbin:/sbin" # iptables

secrets=/run/loader/secrets # /run is a tmpfs: nothing of a secret reaches a disk
loader_uid=65532            # the image's user

# Container-Optimized OS has systemds that cannot lengthen RestartSec by themselves.
back_off() {
  local failures
  failures=$(systemctl show --property=NRestarts --value loader.service)
  if ((failures > 5)); then
    sleep 30
  elif ((failures > 0)); then
    sleep $((1 << (failures - 1)))
  fi
}

# The host's firewall lets in nothing but SSH, and forgets what it was told at each boot.
open_health_port() {
  local range
  for range in $HEALTH_RANGES; do
    iptables -w -C INPUT -p tcp -s "$range" --dport "$HEALTH_PORT" -j ACCEPT 2>/dev/null ||
      iptables -w -A INPUT -p tcp -s "$range" --dport "$HEALTH_PORT" -j ACCEPT
  done
}

# A registry that is away must not keep a worker down whose image is here.
pull() {
  docker-credential-gcr configure-docker --registries="$REGISTRY"
  docker pull --quiet "$IMAGE" || docker image inspect --format '{{.Id}}' "$IMAGE"
}

# The loader's own image fetches them: this system has no client for Secret Manager.
fetch_secrets() {
  mkdir -p "$secrets" /etc/loader/files
  chmod 0700 "$secrets"
  chown "$loader_uid:$loader_uid" "$secrets"
  if [[ -s /etc/loader/secrets.json ]]; then
    docker run --rm --name=loader-secrets --network=host --read-only --tmpfs=/tmp --cap-drop=ALL \
      --security-opt=no-new-privileges --log-driver=none --entrypoint=python \
      --volume=/etc/loader/secrets.json:/etc/loader/secrets.json:ro \
      --volume=/etc/loader/fetch_secrets.py:/etc/loader/fetch_secrets.py:ro \
      --volume="$secrets:/run/secrets" \
      "$IMAGE" /etc/loader/fetch_secrets.py /etc/loader/secrets.json /run/secrets
  fi
}

back_off
open_health_port
docker rm --force loader loader-secrets >/dev/null 2>&1 || true
pull
fetch_secrets
