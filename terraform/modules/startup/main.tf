locals {
  source = "${path.module}/../../../startup"

  # The worker drains; Docker kills it 3 s later and systemd gives up 1 s after that; then the proxy has 2 s and 1 s.
  docker_stop_seconds = var.shutdown.worker_seconds + 3
  unit_stop_seconds   = var.shutdown.worker_seconds + 4
  proxy_stop_seconds  = 2

  environment = merge(var.environment, {
    LOADER_HTTP_HOST        = "0.0.0.0"
    LOADER_HTTP_PORT        = tostring(var.health.port)
    LOADER_SHUTDOWN_SECONDS = tostring(var.shutdown.worker_seconds)
  })

  user_data = templatefile("${local.source}/cloud-init.yaml.tftpl", {
    arguments           = var.arguments
    docker_stop_seconds = local.docker_stop_seconds
    environment         = join("", [for name, value in local.environment : "${name}=${value}\n"])
    fetch               = file("${local.source}/fetch_secrets.py")
    files               = var.files
    health_port         = var.health.port
    health_ranges       = var.health.ranges
    image               = var.image
    prepare             = file("${local.source}/prepare.sh")
    proxy               = var.proxy
    proxy_stop_seconds  = local.proxy_stop_seconds
    registry            = split("/", var.image)[0]
    secrets             = length(var.secrets) == 0 ? "" : jsonencode(var.secrets)
    unit_stop_seconds   = local.unit_stop_seconds
  })

  # base64 makes four characters of three bytes; length() alone counts characters, which are fewer than bytes.
  user_data_bytes = floor(length(base64encode(local.user_data)) / 4) * 3
}
