"""Checks the chart in control/deploy/chart without a cluster: tests/chart/check.py [--update]

Renders the chart for its example values, lints it, checks each object against the schemas of Kubernetes, and compares
the objects with tests/chart/golden, which --update writes. Then checks facts that no schema knows: who has which
secret, port, right and time. Each check that refuses something is tried on something wrong.
"""

import copy
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import helm_python as helm
import kubernetes_validate
import yaml
from kubernetes_validate import utils

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "control/deploy"
CHART = DEPLOY / "chart"
GOLDEN = ROOT / "tests/chart/golden"
EXAMPLES = ["small", "gpu", "production"]
# the oldest version that the chart allows, and the newest one with schemas
VERSIONS = ["1.30", "1.37"]
# objects of the Prometheus operator, whose schemas are not Kubernetes' own
WITHOUT_SCHEMA = {"ServiceMonitor", "PrometheusRule"}

# settings of a fleet, which docs/settings.md may not list yet
FLEET_SETTINGS = {
    "ANGO_ROLE", "ANGO_NATS_URL", "ANGO_FLEET_NAME", "ANGO_FLEET_KEY", "ANGO_WORKER_NAME",
    "ANGO_INTERNAL_LISTEN", "ANGO_INTERNAL_URL",
}  # fmt: skip
# variables of the example for the broker, which are no settings of a node
BROKER_PASSWORDS = {"ANGO_NATS_API_PASSWORD", "ANGO_NATS_WORKER_PASSWORD", "ANGO_NATS_CLUSTER_PASSWORD"}
# settings that only come out of a Secret
SECRETS = {
    "ANGO_SECRET", "ANGO_DATABASE_URL", "ANGO_NATS_URL", "ANGO_FLEET_KEY", "ANGO_S3_ACCESS_KEY_ID",
    "ANGO_S3_SECRET_ACCESS_KEY", "ANGO_REDIS_URL", "ANGO_SMTP_URL", "ANGO_PAYMENTS_STRIPE_SECRET_KEY",
    "ANGO_PAYMENTS_STRIPE_WEBHOOK_SECRET", "SERVICE_ADMIN_KEY",
}  # fmt: skip
FLEET_METRICS = {
    f"ango_fleet_{name}"
    for name in (
        "workers oldest_waiting_seconds published_total redeliveries_total helps_total key_misses_total "
        "device_busy_seconds_total broker_up objects_up published_again_total operations oldest_operation_seconds "
        "operations_released_total operations_released_again_total given_up_total"
    ).split()
}

# values that the schema must refuse, each in place of a part of production.yaml
WRONG = [
    ("image.repository", ""),
    ("secrets.api", "Not a name"),
    ("secrets.password", "a"),
    ("objects.url", "https://objects.example.org"),
    ("api.replicas", "three"),
    ("api.trustedProxies", []),
    ("api.settings", {"ANGO_SECRET": "0" * 64}),
    ("api.settings", {"ANGO_ROLE": "worker"}),
    ("api.settings", {"ANGO_CONNECTIONS_MAX": 4096}),
    ("api.autoscaling.cpu", "70%"),
    ("workers.gpus", -1),
    ("pools", {}),
    ("pools", {"Large": {}}),
    ("pools.h100.settings", {"ANGO_DATABASE_URL": "postgres://db/ango"}),
    ("pools.h100.gracePeriodSeconds", 30),
    ("pools.h100.resources", {"limits": {"memory": "much"}}),
    # a rule without peers would allow all of them
    ("networkPolicy.broker.peers", []),
    ("networkPolicy.bucket.peers", []),
    ("networkPolicy.dns.peers", []),
]


class Unique(yaml.SafeLoader):
    """Refuses a mapping that names a key twice, which YAML readers decide in different ways."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(map(str, keys))):
            raise yaml.constructor.ConstructorError(None, None, f"a key stands twice: {keys}", node.start_mark)
        return super().construct_mapping(node, deep)


def read(text):
    return [document for document in yaml.load_all(text, Unique) if document is not None]


def refused(call, *errors):
    try:
        call()
    except errors:
        return True
    return False


def put(values, path, value):
    values = copy.deepcopy(values)
    *folders, last = path.split(".")
    part = values
    for folder in folders:
        part = part.setdefault(folder, {})
    part[last] = value
    return values


def render(chart, values):
    chart.validate_schema(chart.merge_values(values))
    files = chart.render(values, name="ango", namespace="ango")
    documents = []
    for path, text in sorted(files.items()):
        if not path.endswith("NOTES.txt"):
            documents += read(text)
    return documents


def check_objects(documents):
    for document in documents:
        if document["kind"] not in WITHOUT_SCHEMA:
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)


def of_kind(documents, *kinds):
    return [document for document in documents if document["kind"] in kinds]


def component(document):
    return document["metadata"]["labels"]["app.kubernetes.io/component"]


def pods(documents):
    with_pods = of_kind(documents, "Deployment", "StatefulSet", "Job")
    return [(document, document["spec"]["template"]["spec"]) for document in with_pods]


def env(pod):
    return {variable["name"]: variable for variable in pod["containers"][0]["env"]}


def check_facts(documents, known):
    """Checks what no schema knows. Raises AssertionError."""
    text = yaml.safe_dump_all(documents)
    assert not of_kind(documents, "Secret"), "the chart makes a Secret"
    assert not re.search(r"://[^/\s\"']+:[^/\s\"']+@", text), "an address with a password"
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    assert len(names) == len(set(names)), f"a name stands twice: {names}"

    for document, pod in pods(documents):
        what, [container] = document["metadata"]["name"], pod["containers"]
        variables = env(pod)
        assert len(variables) == len(container["env"]), f"{what}: a variable stands twice"
        unknown = variables.keys() - known - {"POD_IP"}
        assert not unknown, f"{what}: {unknown} are no settings"
        for name in SECRETS & variables.keys():
            assert list(variables[name]) == ["name", "valueFrom"], f"{what}: {name} has a value"
            assert "secretKeyRef" in variables[name]["valueFrom"], f"{what}: {name} is not from a Secret"
        assert "envFrom" not in container, f"{what}: takes variables without names"
        assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False, what
        assert not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")), what
        own, whole = container["securityContext"], pod["securityContext"]
        assert whole["runAsUser"] == 65532 and whole["runAsNonRoot"], what
        assert whole["seccompProfile"] == {"type": "RuntimeDefault"}, what
        assert own == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, what
        if document["kind"] != "Job":
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert container[probe]["httpGet"]["port"] == "metrics", f"{what}: {probe}"
            assert container["livenessProbe"]["httpGet"]["path"] == "/livez", what
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz", what

    workers = [(document, pod) for document, pod in pods(documents) if component(document) == "worker"]
    assert workers, "there is no worker"
    for document, pod in workers:
        what, variables = document["metadata"]["name"], env(pod)
        assert document["kind"] == "StatefulSet", what
        refused_to_workers = {"ANGO_DATABASE_URL", "ANGO_SECRET", "ANGO_INTERNAL_LISTEN", "ANGO_REDIS_URL"}
        assert not refused_to_workers & variables.keys(), f"{what} has {refused_to_workers & variables.keys()}"
        assert variables["ANGO_ROLE"]["value"] == "worker", what
        assert variables["ANGO_LISTEN"]["value"].startswith("127.0.0.1:"), what
        assert variables["ANGO_WORKER_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}, what
        assert re.fullmatch("[a-z0-9-]{1,58}", what), f"{what}: the names of its pods are no names of workers"
        assert pod["terminationGracePeriodSeconds"] == 660, f"{what}: a stop cuts its drain short"
        ports = [port["containerPort"] for port in pod["containers"][0]["ports"]]
        assert ports == [9464], f"{what}: opens {ports}"
        assert pod["topologySpreadConstraints"], what

    [(document, pod)] = [(document, pod) for document, pod in pods(documents) if component(document) == "api"]
    variables = env(pod)
    assert variables["ANGO_ROLE"]["value"] == "api" and "ANGO_FLEET_KEY" not in variables
    assert {"ANGO_SECRET", "ANGO_DATABASE_URL", "ANGO_NATS_URL"} <= variables.keys()
    order = list(variables)
    assert order.index("POD_IP") < order.index("ANGO_INTERNAL_URL"), "POD_IP is put in only after it"
    assert not any("nvidia" in name for name in pod["containers"][0]["resources"].get("limits", {}))
    autoscaled = bool(of_kind(documents, "HorizontalPodAutoscaler"))
    assert autoscaled != ("replicas" in document["spec"]), "an upgrade would undo the autoscaler"
    [(job, pod)] = [(document, pod) for document, pod in pods(documents) if document["kind"] == "Job"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    assert pod["containers"][0]["args"] == ["migrate"]

    selectors = [pdb["spec"]["selector"]["matchLabels"] for pdb in of_kind(documents, "PodDisruptionBudget")]
    for document in of_kind(documents, "Deployment", "StatefulSet"):
        assert document["spec"]["selector"]["matchLabels"] in selectors, "a pod without a budget"
    ports = {
        port["targetPort"]
        for service in of_kind(documents, "Service")
        if service["spec"].get("clusterIP") != "None"
        for port in service["spec"]["ports"]
    }
    assert ports == {"http"}, f"Services with an address lead to {ports}"
    policies = {component(policy): policy["spec"] for policy in of_kind(documents, "NetworkPolicy")}
    if policies:
        check_policies(policies)


def check_policies(policies):
    api, worker = policies["api"], policies["worker"]
    assert worker["policyTypes"] == ["Ingress", "Egress"]
    rules = worker["egress"] + worker["ingress"]
    assert all(rule.get("to") or rule.get("from") for rule in rules), "a rule of the workers allows everyone"
    out = [{port["port"] for port in rule["ports"]} for rule in worker["egress"]]
    assert len(out) == 4 and out[2:] == [{9465}, {53}], out
    assert [port["port"] for rule in worker["ingress"] for port in rule["ports"]] in ([], [9464])
    internal = [rule for rule in api["ingress"] if any(port["port"] == 9465 for port in rule["ports"])]
    [peer] = [peer for rule in internal for peer in rule["from"]]
    assert peer["podSelector"]["matchLabels"] == worker["podSelector"]["matchLabels"], "who reaches the internal port?"
    assert all("ports" in rule for rule in api["ingress"])


def check_metrics():
    """The rules and the dashboard name metrics that exist, and each metric of the fleet has its panel."""
    sources = "".join(path.read_text() for path in (ROOT / "control/src").rglob("*.rs"))
    known = FLEET_METRICS | set(re.findall(r'"(ango_[a-z_]+)"', sources))
    rules = read((CHART / "files/alerts.yaml").read_text())[0]["groups"][0]["rules"]
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) > 7
    asked = [rule["expr"] for rule in rules]
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = functools.partial(re.findall, r"\bango_[a-z_]+")
    names = lambda texts: {re.sub("_(bucket|sum|count)$", "", name) for name in named(" ".join(texts))}
    assert names(asked + shown) <= known, f"no metrics: {names(asked + shown) - known}"
    assert FLEET_METRICS <= names(shown), f"not on the dashboard: {FLEET_METRICS - names(shown)}"
    titles = re.findall("^#+ (.*)", (ROOT / "docs/fleet.md").read_text(), re.M)
    headings = {re.sub("[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    for rule in rules:
        path, _, heading = rule["annotations"]["runbook"].partition("#")
        assert path == "docs/fleet.md" and heading in headings, f"{rule['alert']}: no heading {heading}"


def check_pages(known):
    """Every variable in the files for operators is a setting."""
    for path in [ROOT / "docs/fleet.md", DEPLOY / "nats.conf", *DEPLOY.glob("*.service"), CHART / "values.yaml"]:
        named = set(re.findall(r"\b(?:ANGO|SERVICE)_[A-Z0-9_]+\b", path.read_text()))
        assert named <= known | BROKER_PASSWORDS, f"{path.name}: {named - known - BROKER_PASSWORDS} are no settings"


def check_broker():
    program = shutil.which("nats-server")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else ""
    numbers = re.search(r"v(\d+)\.(\d+)", version)
    if not numbers or tuple(map(int, numbers.groups())) < (2, 12):
        print("NOT CHECKED: nats.conf, because there is no nats-server of version 2.12 or newer")
        return
    passwords = dict.fromkeys(BROKER_PASSWORDS, "a-password")
    trial = [program, "-t", "--config", DEPLOY / "nats.conf"]
    subprocess.run(trial, env=os.environ | passwords, check=True, capture_output=True)


def check_wrong(chart, values, documents, known):
    """The checks refuse wrong values and wrong objects."""
    for path, value in WRONG:
        merged = chart.merge_values(put(values, path, value))
        assert refused(lambda: chart.validate_schema(merged), helm.HelmError), f"{path}: {value} is accepted"
        assert refused(lambda: chart.render(put(values, path, value)), helm.HelmError), f"{path}: {value} is rendered"
    # a pool replaces a default by zero too
    idle = render(chart, put(values, "pools.h100.replicas", 0))
    assert [document["spec"]["replicas"] for document in of_kind(idle, "StatefulSet")] == [0]

    changes = [
        ("a wrong type", "Deployment", lambda pod, spec: spec.update(minReadySeconds="five"), check_objects),
        ("an unknown member", "Deployment", lambda pod, spec: spec.update(replica=2), check_objects),
        ("a wrong type in a pod", "StatefulSet", lambda pod, _: pod.update(hostNetwork="no"), check_objects),
    ]
    facts = functools.partial(check_facts, known=known)
    variable = lambda pod, name: pod["containers"][0]["env"].append({"name": name, "value": "a"})
    changes += [
        ("a short stop", "StatefulSet", lambda pod, _: pod.update(terminationGracePeriodSeconds=30), facts),
        ("a worker with the secret", "StatefulSet", lambda pod, _: variable(pod, "ANGO_SECRET"), facts),
        ("a secret as a value", "Deployment", lambda pod, _: variable(pod, "ANGO_REDIS_URL"), facts),
        ("no setting", "Deployment", lambda pod, _: variable(pod, "ANGO_ROLES"), facts),
        ("a port", "StatefulSet", lambda pod, _: pod["containers"][0]["ports"].append({"containerPort": 8080}), facts),
        ("root", "Job", lambda pod, _: pod["securityContext"].update(runAsUser=0), facts),
    ]
    for what, kind, change, check in changes:
        changed = copy.deepcopy(documents)
        document = of_kind(changed, kind)[0]
        change(document["spec"]["template"]["spec"], document["spec"])
        errors = (kubernetes_validate.ValidationError, AssertionError)
        assert refused(lambda: check(changed), *errors), f"{what} is not noticed"
    assert refused(lambda: read("a: 1\na: 2\n"), yaml.YAMLError)


def main():
    update = "--update" in sys.argv[1:]
    # each call reads the same large files
    utils.schema_contents = functools.cache(utils.schema_contents)
    settings = (ROOT / "docs/settings.md").read_text()
    known = set(re.findall(r"`((?:ANGO|SERVICE)_[A-Z0-9_]+)`", settings)) | FLEET_SETTINGS
    assert len(known) > 50, "docs/settings.md was not read"
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)
    count = 0
    with helm.Chart.load(CHART) as chart:
        assert chart.metadata["appVersion"] == version, "the chart is of another version than the program"
        for example in EXAMPLES:
            values = helm.values_from_yaml((CHART / f"examples/{example}.yaml").read_text())
            for kubernetes in VERSIONS:
                report = helm.lint(CHART, values, strict=True, namespace="ango", kube_version=f"v{kubernetes}.0")
                # 1: a remark, such as that there is no icon
                faults = report["errors"] + [message for message in report["messages"] if message["severity"] > 1]
                assert not faults, f"{example}: {faults}"
            documents = render(chart, values)
            check_objects(documents)
            check_facts(documents, known)
            count += len(documents)
            golden, text = GOLDEN / f"{example}.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120)
            if update:
                golden.write_text(text)
            assert golden.read_text() == text, f"{golden.name} differs: look at the change, then run with --update"
        unknown = {document["kind"] for document in documents} & WITHOUT_SCHEMA
        assert unknown == WITHOUT_SCHEMA, "production.yaml has all kinds"
        check_wrong(chart, values, documents, known)
    check_metrics()
    check_pages(known)
    check_broker()
    versions = " and ".join(VERSIONS)
    print(f"{count} objects of {len(EXAMPLES)} examples fit Kubernetes {versions}, {len(WRONG)} wrong values do not")


if __name__ == "__main__":
    main()
