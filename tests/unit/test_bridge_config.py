"""The bridge's file as a whole: defaults, errors, constructs, plan and instance."""

from __future__ import annotations

import http.server
import threading

import pytest

from loader.bridge.config.defaults import rows
from loader.bridge.config.finding import InvalidConfiguration
from loader.bridge.config.instance import Instance, ask_metadata, find_instance
from loader.bridge.config.load import examine, parse_configuration
from loader.bridge.config.plan import make_plan
from loader.bridge.config.reference import resolve
from loader.bridge.engine.run import Engine
from loader.errors import ConfigurationError

ENDPOINTS = """
endpoint "kafka" "in" {
  region = "eu"
  environment = "prod"
  brokers = ["a:9092"]
  topic = "events"
}
endpoint "pubsub" "out" {
  region = "eu"
  environment = "prod"
  topic = "projects/p/topics/out"
}
endpoint "pubsub" "stage" {
  region = "eu"
  environment = "staging"
  topic = "projects/p/topics/stage"
}
"""


def pipeline(name: str = "p", more: str = "", source: str = "in", sinks: str = '"out"', policy: str = "stop") -> str:
    return f'pipeline "{name}" {{\n source = "{source}"\n sinks = [{sinks}]\n on_refusal = "{policy}"\n{more}\n}}\n'


def errors(text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(InvalidConfiguration) as raised:
        parse_configuration(text, "f.hcl", environ or {})
    assert raised.value.exit_code == 78
    return str(raised.value)


def findings(tmp_path, text: str, severity: str) -> list[str]:
    path = tmp_path / "f.hcl"
    path.write_text(text)
    return [finding.text for finding in examine(path, {}) if finding.severity == severity]


def test_a_pipeline_needs_little_and_the_rest_has_defaults():
    found = parse_configuration(ENDPOINTS + pipeline(), environ={}).pipelines["p"]
    assert (found.format, found.criticality, found.shared) == ("json", "high", True)
    assert found.options["max_in_flight"] == 20_000
    assert found.options["tombstones"] == "skip"


def test_criticality_follows_the_sinks_and_can_be_set():
    text = ENDPOINTS + pipeline("low", sinks='"stage"') + pipeline("set", 'criticality = "low"')
    found = parse_configuration(text, environ={}).pipelines
    assert (found["low"].criticality, found["set"].criticality) == ("low", "low")


def test_blocks_are_equal_after_they_moved_and_differ_after_a_change():
    one, moved, changed = (
        parse_configuration(text, environ={}).pipelines["p"]
        for text in (
            ENDPOINTS + pipeline(more='stage "filter" { when = payload.a == 1 }'),
            "\n# remark\n" + ENDPOINTS + pipeline(more='\n\nstage "filter" { when = payload.a == 1 }'),
            ENDPOINTS + pipeline(more='stage "filter" { when = payload.a == 2 }'),
        )
    )
    assert one == moved
    assert one != changed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('endpint "a" "b" {}', "unknown block 'endpint'; did you mean 'endpoint'"),
        ("x = 1", "outside of any block"),
        ('endpoint "kafca" "b" {}', "unknown kind of endpoint 'kafca'; did you mean 'kafka'"),
        ('endpoint "kafka" {}', 'write it as: endpoint "KIND" "NAME"'),
        ('endpoint "file" "a/b" { path = "x" }', "may hold letters"),
        ('endpoint "file" "a" { path = "x" }', "needs region"),
        ('endpoint "file" "a" { pth = "x" }', "no attribute 'pth'; did you mean 'path'"),
        ('endpoint "file" "a" { region = 5 }', 'region must be a text in "…", not 5'),
        (
            'endpoint "file" "a" {\n compression = "zip"\n}',
            "compression cannot be 'zip'; did you mean 'gzip'? (allowed: auto, gzip, none)",
        ),
        (ENDPOINTS + ENDPOINTS, "stands in line 2 already"),
        ('endpoint "kafka" "k" { password = "hunter2" }', "password is a secret; write secret("),
        ('endpoint "kafka" "k" { properties = { "sasl.password" = "hunter2" } }', "has sasl.password, a secret"),
        ('endpoint "http" "h" { headers = { Authorization = "hunter2" } }', "has Authorization, a secret"),
        ('endpoint "kafka" "k" { properties = { "enable.auto.commit" = true } }', "enable.auto.commit cannot be set"),
        ('endpoint "pubsub" "k" { topic = "orders" }', "topic must be a full name"),
        ('endpoint "pubsub" "k" { topic = "projects/p/topics/t1" }', "3 to 255 letters"),
        ('endpoint "pubsub" "k" { topic = "projects/p/topics/abc"\n batch_messages = 1001 }', "at most 1000"),
        ('endpoint "pubsub" "k" { topic = "projects/p/topics/abc"\n batch_bytes = "11MB" }', "10 MB"),
        ('endpoint "file" "a" { region = env("NOWHERE") }', 'region: env("NOWHERE") is not set'),
        ("bridge {}\nbridge {}", "a second bridge block"),
        (ENDPOINTS + pipeline(source="im"), "source 'im' is no endpoint (allowed: in, out, stage)"),
        (ENDPOINTS + pipeline(sinks='"aut"'), "sink 'aut' is no endpoint; did you mean 'out'"),
        (ENDPOINTS + pipeline(sinks='"out", "out"'), "stands twice"),
        (ENDPOINTS + pipeline(source="out"), "has no subscription"),
        (ENDPOINTS + pipeline(policy="dead_letter"), "does not say what becomes of messages that are refused"),
        (ENDPOINTS + pipeline(more='format = "jsn"'), "unknown format 'jsn'; did you mean 'json'"),
        (ENDPOINTS + pipeline(more='format = "protobuf"'), "write it as a block"),
        (ENDPOINTS + pipeline(more='format "protobuf" { message = "a" }'), "needs descriptor_set"),
        (ENDPOINTS + pipeline(more='stage "filtre" { when = true }'), "unknown stage 'filtre'; did you mean 'filter'"),
        (ENDPOINTS + pipeline(more='stage "filter" {}'), "needs when (condition)"),
        (ENDPOINTS + pipeline(more='stage "filter" { when = 5 }'), "must be a condition such as"),
        (ENDPOINTS + pipeline(more='stage "filter" { when = nope == 1 }'), "unknown name 'nope'"),
        (ENDPOINTS + pipeline(more='stage "filter" { when = lookup.a[key] == 1 }'), "lookup 'a' is not there"),
        (ENDPOINTS + pipeline(more='stage "sample" { rate = 2 }'), "must be a number from 0 to 1, not 2"),
        (ENDPOINTS + pipeline(more='stage "multiply" { copies = 0 }'), "must be a whole number from 1"),
        (ENDPOINTS + pipeline(more='commit_interval = "soon"'), "must be a duration such as 30s"),
        (ENDPOINTS + pipeline(more='max_in_flight_bytes = "many"'), "must be a size such as 16MiB"),
        (ENDPOINTS + pipeline(more="shared = 1"), "must be true or false"),
        (ENDPOINTS + pipeline(more='stage "drop_fields" { fields = ["a..b"] }'), "must be the path of a field"),
        (ENDPOINTS + pipeline(more='stage = "filter"'), "no attribute 'stage'; write it as a block"),
        ('lookup "l" {}', "needs one block http"),
        ('lookup "l" { sql { dsn = "postgres://u:hunter2@h/d"\n query = "select 1" } }', "dsn is a secret"),
        ('test "t" { pipeline = "none"\n input { value = 1 } }', "pipeline 'none' is not there"),
    ],
)
def test_a_fault_is_named_with_what_is_allowed(text, says):
    told = errors(text)
    assert says in told
    assert "hunter2" not in told
    assert "f.hcl:" in told


def test_every_error_of_a_file_is_told_at_once_in_its_order():
    with pytest.raises(InvalidConfiguration) as raised:
        parse_configuration(ENDPOINTS + 'pipelin "x" {}\n' + pipeline(sinks='"nope"') + 'test "t" {}', "f", {})
    lines = [finding.place.line for finding in raised.value.findings]
    assert len(lines) >= 4
    assert lines == sorted(lines)


STAGE_ERRORS = {
    'stage "filter" { when = 1 == 2 }\nstage "throttle" { rate = 1 }': '"throttle" is never reached',
    'stage "sample" { rate = 0 }\nstage "throttle" { rate = 1 }': "never reached",
    'stage "route" {\n rule {\n when = true\n to = "out"\n }\n'
    ' rule {\n when = payload.a\n to = "out"\n }\n}': "rule 2 is never",
    'stage "route" {\n rule {\n when = true\n to = "out"\n }\n default = "out"\n}': "the default is never reached",
    'stage "route" {\n rule {\n when = payload.a\n to = "ot"\n }\n}': "'ot' is no sink of pipeline 'p'; did",
    'stage "route" {\n rule {\n when = true\n to = []\n }\n}\nstage "throttle" { rate = 1 }': "never reached",
    'format = "raw"\nstage "filter" { when = payload.a == 1 }': "which is raw",
    'format = "raw"\nstage "drop_fields" { fields = "a" }': "which is raw",
    f'stage "set" {{ headers = {{ "{"k" * 257}" = 1 }} }}': "a name of 0 or over 256 bytes",
    f'stage "set" {{ headers = {{ k = "{"é" * 513}" }} }}': "a value of over 1024 bytes",
    'stage "set" { headers = { googly = 1 } }': "begin with goog",
    'stage "set" { headers = { event_id = 1 } }': "the message's identity",
    'stage "set" { headers = { ' + ", ".join(f"h{i} = 1" for i in range(100)) + " } }": "at most 100 attributes",
}


@pytest.mark.parametrize("more", STAGE_ERRORS)
def test_what_no_message_reaches_or_pubsub_would_refuse_is_an_error(more):
    assert STAGE_ERRORS[more] in errors(ENDPOINTS + pipeline(more=more))


def test_a_raw_pipeline_may_look_at_headers_key_and_topic():
    more = 'format = "raw"\nstage "filter" { when = headers.a == "1" && topic == "t" }\n'
    more += 'stage "drop_fields" { headers = "a" }'
    parse_configuration(ENDPOINTS + pipeline(more=more), environ={})


def kafka(name: str, topic: str, brokers: str = "a:9092") -> str:
    return (
        f'endpoint "kafka" "{name}" {{\n region = "eu"\n environment = "prod"\n brokers = "{brokers}"\n'
        f' topic = "{topic}"\n}}\n'
    )


def test_a_pipeline_that_feeds_its_own_source_is_refused_even_under_another_name():
    text = kafka("a", "t") + kafka("same", "t")
    assert "feeds its own source" in errors(text + pipeline(source="a", sinks='"same"'))
    assert "feeds its own source" in errors(text + pipeline(source="a", sinks='"a"'))
    parse_configuration(
        kafka("a", "t") + kafka("other", "t", "b:9092") + pipeline(source="a", sinks='"other"'), environ={}
    )


def test_a_loop_over_several_pipelines_is_refused_once_and_shown():
    text = kafka("a", "a") + kafka("b", "b") + kafka("c", "c")
    for name, source, sink in (("ab", "a", "b"), ("bc", "b", "c"), ("ca", "c", "a")):
        text += pipeline(name, source=source, sinks=f'"{sink}"')
    told = errors(text)
    assert told.count("a loop") == 1
    assert "ab → bc → ca → ab" in told


def test_a_loop_through_dead_letters_or_a_subscription_of_the_topic_is_refused():
    text = kafka("a", "a") + kafka("b", "b")
    text += 'pipeline "p" {\n source = "a"\n sinks = "b"\n dead_letter = "a"\n}\n'
    assert "feeds its own source" in errors(text)
    both = ENDPOINTS + 'endpoint "pubsub" "both" {\n region = "eu"\n environment = "prod"\n'
    both += ' topic = "projects/p/topics/abc"\n subscription = "projects/p/subscriptions/abc"\n}\n'
    assert "feeds its own source" in errors(both + pipeline(source="both", sinks='"both"'))


def test_a_mirror_is_two_pipelines_and_no_loop():
    text = kafka("a", "t") + kafka("b", "t", "b:9092") + 'mirror "m" {\n between = ["a", "b"]\n on_refusal = "stop"\n}'
    found = parse_configuration(text, environ={}).pipelines
    assert {name: (each.source, each.sinks) for name, each in found.items()} == {
        "m.b": ("a", ("b",)),
        "m.a": ("b", ("a",)),
    }
    assert "two different endpoints" in errors(text.replace('["a", "b"]', '["a", "a"]'))


def test_replicate_gives_each_target_a_pipeline_and_each_environment_a_consumer():
    text = ENDPOINTS + 'replicate "r" {\n source = "in"\n to = ["out", "stage"]\n on_refusal = "stop"\n}'
    configuration = parse_configuration(text, environ={})
    assert list(configuration.pipelines) == ["r.out", "r.stage"]
    plan = make_plan(configuration, Instance("eu", "prod", ""))
    assert [consumer.group for consumer in plan.consumers] == ["bridge.in.prod", "bridge.in.staging"]


def test_pipelines_of_one_source_and_sink_environment_share_a_consumer_unless_told_otherwise():
    text = 'bridge { name = "router" }\n' + ENDPOINTS
    text += pipeline("a") + pipeline("b") + pipeline("c", "shared = false") + pipeline("d", 'start = "latest"')
    text += pipeline("e", 'group = "mine"') + pipeline("f", sinks='"stage"') + pipeline("g", "enabled = false")
    plan = make_plan(parse_configuration(text, environ={}), Instance("eu", "prod", ""))
    groups = {consumer.group: [each.name for each in consumer.pipelines] for consumer in plan.consumers}
    assert groups == {
        "router.in.prod": ["a", "b"],
        "router.in.prod.c": ["c"],
        "router.in.prod.d": ["d"],
        "mine": ["e"],
        "router.in.staging": ["f"],
    }
    whys = {consumer.pipelines[0].name: consumer.why for consumer in plan.consumers}
    assert "same source in" in whys["a"]
    assert whys["c"] == "shared = false"
    assert "starts at latest" in whys["d"]
    assert plan.left == {"g": "enabled = false"}


def test_an_instance_runs_what_has_its_source_in_its_own_region_and_environment():
    configuration = parse_configuration(ENDPOINTS + pipeline(), environ={})
    plan = make_plan(configuration, Instance("us", "prod", ""))
    assert plan.consumers == ()
    assert plan.left == {"p": "its source in is in eu/prod"}


def test_one_consumer_group_for_two_sources_is_refused():
    text = kafka("a", "a") + kafka("b", "b") + kafka("c", "c")
    for name, source in (("x", "a"), ("y", "b")):
        text += pipeline(name, 'group = "g"', source=source, sinks='"c"')
    assert "the consumer group 'g' is that of x, y" in errors(text)


def test_what_is_doubtful_is_warned_of_and_sharing_is_noted(tmp_path):
    text = ENDPOINTS + pipeline("a", 'stage "filter" { when = true }') + pipeline("b", sinks='"out", "stage"')
    text += pipeline("c", 'stage "multiply" { copies = 3 }')
    warnings = " ".join(findings(tmp_path, text, "warning"))
    assert "always true: it does nothing" in warnings
    assert "the sinks of 'b' are in prod and staging" in warnings
    assert "several times" in warnings
    notes = " ".join(findings(tmp_path, text, "note"))
    assert "a, c share the consumer" in notes
    assert "up to 3 for one" in notes
    assert not findings(tmp_path, text, "error")


def test_the_check_names_variables_that_are_not_set_and_descriptor_sets_that_are_not_there(tmp_path):
    text = ENDPOINTS.replace('["a:9092"]', 'env("BROKERS")') + pipeline()
    assert findings(tmp_path, text, "warning") == ['env("BROKERS") cannot be resolved here']
    text = ENDPOINTS + pipeline(more='format "protobuf" {\n descriptor_set = "/none"\n message = "a.B"\n}')
    assert "No such file" in findings(tmp_path, text, "error")[0]


def test_show_defaults_shows_references_and_no_values(monkeypatch):
    monkeypatch.setenv("PASSWORD", "hunter2")
    text = ENDPOINTS.replace('topic = "events"', 'topic = "events"\n password = secret("env:PASSWORD")') + pipeline()
    shown = {(block, name): (value, default) for block, name, value, default in rows(parse_configuration(text))}
    assert shown['endpoint "kafka" "in"', "password"] == ('secret("env:PASSWORD")', "")
    assert shown['pipeline "p"', "tombstones"] == ("skip", "default")
    assert "hunter2" not in str(shown)


def test_the_instance_is_found_by_flags_then_variables_then_the_metadata_server():
    answers = {"instance/zone": "projects/1/zones/europe-west1-b", "instance/attributes/environment": "prod"}
    environ = {"BRIDGE_REGION": "r", "BRIDGE_ENVIRONMENT": "e"}
    flags = find_instance("a", "b", environ, answers.get)
    assert (flags.region, flags.environment) == ("a", "b")
    variables = find_instance(None, None, environ, answers.get)
    assert (variables.region, variables.environment) == ("r", "e")
    metadata = find_instance(None, None, {}, answers.get)
    assert (metadata.region, metadata.environment) == ("europe-west1", "prod")
    assert "metadata server" in metadata.known_by


def test_an_instance_that_nobody_names_is_refused_with_the_ways_to_name_it():
    with pytest.raises(ConfigurationError, match=r"--region, or the variable BRIDGE_REGION.*--environment") as raised:
        find_instance(None, None, {}, lambda path: None)
    assert raised.value.exit_code == 78


@pytest.mark.parametrize(("flavour", "found"), [("Google", "projects/1/zones/us-east1-c"), ("other", None)])
def test_only_googles_metadata_server_is_believed(flavour, found):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.headers["Metadata-Flavor"] == "Google"
            self.send_response(200)
            self.send_header("Metadata-Flavor", flavour)
            self.end_headers()
            self.wfile.write(b"projects/1/zones/us-east1-c\n")

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert ask_metadata("instance/zone", f"127.0.0.1:{server.server_port}") == found
        thread.join()


def test_no_metadata_server_is_no_error():
    assert ask_metadata("instance/zone", "127.0.0.1:1") is None


@pytest.mark.parametrize("sinks", ["[]", "null"])
def test_a_pipeline_without_a_sink_is_refused_for_it_would_throw_every_message_away(sinks):
    text = ENDPOINTS + pipeline().replace('["out"]', sinks)
    assert "sinks" in errors(text)
    assert "to is empty" in errors(ENDPOINTS + 'replicate "r" {\n source = "in"\n to = []\n on_refusal = "stop"\n}\n')


@pytest.mark.parametrize("option", ["source = null", "sinks = null"])
def test_null_is_no_value_for_what_a_block_needs(option):
    name = option.split()[0]
    lines = pipeline().replace('source = "in"', "").replace('sinks = ["out"]', "")
    other = 'sinks = ["out"]' if name == "source" else 'source = "in"'
    assert f"needs {name}" in errors(ENDPOINTS + lines.replace("{", f"{{\n {option}\n {other}", 1))
    assert "needs when" in errors(ENDPOINTS + pipeline(more='stage "filter" {\n when = null\n}'))


def test_a_stage_that_does_nothing_is_told(tmp_path):
    stages = ['"set" { }', '"drop_fields" { }', '"rename" { fields = { } }', '"copy_field" { from = "a" }']
    text = ENDPOINTS + pipeline(more="\n".join(f"stage {each}" for each in stages))
    assert len([each for each in findings(tmp_path, text, "warning") if "does nothing" in each]) == 4


@pytest.mark.parametrize("name", ["", "a..b", "b."])
def test_names_of_fields_to_set_are_paths(name):
    assert "paths of fields" in errors(ENDPOINTS + pipeline(more=f'stage "set" {{ fields = {{ "{name}" = 1 }} }}'))


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "f.hcl"
    path.write_bytes(b"\xef\xbb\xbf" + (ENDPOINTS + pipeline()).encode())
    assert [finding for finding in examine(path, {}) if finding.severity == "error"] == []


def test_what_nests_without_end_is_refused_and_long_chains_are_not(tmp_path):
    deep = "[" * 3_000 + "]" * 3_000
    assert "nested" in findings(tmp_path, f"bridge {{\n name = {deep}\n}}\n", "error")[0]
    chain = " || ".join(f"payload.a == {number}" for number in range(3_000))
    text = ENDPOINTS + pipeline(more=f'stage "filter" {{ when = "{chain}" }}')
    assert findings(tmp_path, text, "error") == []
    text = ENDPOINTS + pipeline(more=f'stage "filter" {{ when = "{" + ".join(["payload.a"] * 3_000)} == 1" }}')
    assert "operators in a row" in findings(tmp_path, text, "error")[0]


def test_a_linger_that_outlasts_a_stop_is_refused():
    assert "linger is 10 s at most" in errors(ENDPOINTS + pipeline(more='linger = "1h"'))


FILES = """
endpoint "kafka" "in" {
  region = "r"
  environment = "e"
  brokers = "a:1"
  topic = "t"
  ca_file = env("CA", "ca.pem")
}
endpoint "file" "out" {
  region = "r"
  environment = "e"
  path = "data"
}
lookup "l" {
  file {
    path = "keys.json"
  }
}
pipeline "p" {
  source = "in"
  sinks = ["out"]
  on_refusal = "stop"
  format "avro" {
    registry = "http://r"
    reader_schema = "r.avsc"
  }
}
"""


def test_files_to_read_are_found_in_the_working_directory_or_beside_the_file(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    configuration = parse_configuration(FILES, str(there / "f.hcl"))

    def found():
        return [
            resolve(configuration.endpoints["in"].options, {})["ca_file"],
            resolve(configuration.lookups["l"].options, {})["path"],
            resolve(configuration.pipelines["p"].format_options, {})["reader_schema"],
        ]

    names = ["ca.pem", "keys.json", "r.avsc"]
    assert found() == names, "as they are written, for the error that says so"
    for name in [*names, "data"]:
        (there / name).touch()
    assert found() == [str(there / name) for name in names]
    assert resolve(configuration.endpoints["out"].options, {})["path"] == "data", "written in the working directory"
    assert ('lookup "l"', "path", "keys.json", "") in list(rows(configuration))
    for name in names:
        (here / name).touch()
    assert found() == names


def test_a_file_that_is_read_beside_the_hcl_file_is_known_by_the_path_as_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "in.ndjson").write_text('{"a":1}\n')
    place = 'region = "r"\n environment = "e"\n'
    text = "".join(
        f'endpoint "file" "{name}" {{\n {place} path = "{name}.ndjson"\n lines = "{lines}"\n}}\n'
        for name, lines in (("in", "values"), ("out", "messages"))
    )
    configuration = parse_configuration(text + pipeline(), "conf/f.hcl")
    engine = Engine(Instance("r", "e", "a test"))
    try:
        engine.apply(configuration, 1.0)
        assert all(running.reader.ended.wait(10) for running in engine.running.values())
    finally:
        engine.stop(5.0)
    assert '"event_id":"file/in.ndjson/' in (tmp_path / "out.ndjson").read_text()
