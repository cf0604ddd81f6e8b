"""Download javadoc archives with Maven: the replicated collections of `bench.replicas.collections`, and other pages."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

# Targets: versions of one collection. Versions in ascending order.
TARGETS = {
    "commons-cli:commons-cli": ("1.4", "1.5.0", "1.6.0"),
    "commons-codec:commons-codec": ("1.14", "1.15", "1.16.0"),
    "org.apache.commons:commons-csv": ("1.8", "1.9.0", "1.10.0"),
    "org.apache.commons:commons-text": ("1.8", "1.9", "1.10.0"),
    "org.apache.commons:commons-pool2": ("2.9.0", "2.10.0", "2.11.1"),
    "org.apache.commons:commons-dbcp2": ("2.7.0", "2.8.0", "2.9.0"),
    "commons-validator:commons-validator": ("1.6", "1.7"),
    "commons-net:commons-net": ("3.6", "3.7", "3.8.0"),
    "com.google.code.gson:gson": ("2.8.6", "2.8.9", "2.10"),
    "org.slf4j:slf4j-api": ("1.7.30", "1.7.36", "2.0.0"),
    "junit:junit": ("4.12", "4.13", "4.13.2"),
    "org.jsoup:jsoup": ("1.13.1", "1.14.3", "1.15.3"),
    "joda-time:joda-time": ("2.9.9", "2.10.10", "2.12.0"),
    "com.fasterxml.jackson.core:jackson-core": ("2.11.0", "2.12.0", "2.13.0"),
    "com.fasterxml.jackson.core:jackson-annotations": ("2.11.0", "2.12.0", "2.13.0"),
    "org.yaml:snakeyaml": ("1.26", "1.28", "1.30"),
    "org.apache.httpcomponents:httpclient": ("4.5.11", "4.5.12", "4.5.13"),
    "org.apache.httpcomponents:httpcore": ("4.4.12", "4.4.13", "4.4.14"),
    "com.zaxxer:HikariCP": ("3.4.5", "4.0.3", "5.0.0"),
    "org.ow2.asm:asm": ("8.0", "9.0", "9.2"),
    "org.freemarker:freemarker": ("2.3.29", "2.3.30", "2.3.31"),
    "info.picocli:picocli": ("4.5.0", "4.6.0", "4.6.3"),
    "io.dropwizard.metrics:metrics-core": ("4.1.0", "4.2.0"),
    "org.jdom:jdom2": ("2.0.5", "2.0.6"),
    "org.hamcrest:hamcrest": ("2.1", "2.2"),
}
# Unrelated: one version each, so that nothing is replicated. commons-lang3 would be replicated: commons-text began as a
# copy of one of its packages.
UNRELATED = {
    "commons-io:commons-io": ("2.11.0",),
    "org.apache.commons:commons-compress": ("1.21",),
    "org.apache.commons:commons-collections4": ("4.4",),
    "org.apache.commons:commons-math3": ("3.6.1",),
    "org.mockito:mockito-core": ("4.0.0",),
    "org.apache.lucene:lucene-core": ("8.11.0",),
    "org.jfree:jfreechart": ("1.5.3",),
    "org.apache.poi:poi": ("4.1.2",),
}
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>javadocs</artifactId><version>1</version><packaging>pom</packaging>
<build><plugins><plugin><groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>
<configuration><outputDirectory>{folder}</outputDirectory><artifactItems>{items}</artifactItems></configuration>
</plugin></plugins></build></project>"""
_ITEM = (
    "<artifactItem><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    "<classifier>javadoc</classifier><type>jar</type></artifactItem>"
)


def download(folder: Path) -> None:
    """Download all archives that `folder` does not contain yet."""
    folder.mkdir(parents=True, exist_ok=True)
    items = []
    for artifact, versions in {**TARGETS, **UNRELATED}.items():
        group, name = artifact.split(":")
        for version in versions:
            if not archive(folder, artifact, version).exists():
                items.append(_ITEM.format(group=group, name=name, version=version))
    if items:
        pom = folder / "pom.xml"
        pom.write_text(_POM.format(folder=folder.resolve(), items="".join(items)))
        subprocess.run(["mvn", "-q", "-B", "-f", str(pom), "dependency:copy"], check=True)


def archive(folder: Path, artifact: str, version: str) -> Path:
    return folder / f"{artifact.split(':')[1]}-{version}-javadoc.jar"


def read_pages(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and the HTML of each page of an archive, in the order of paths."""
    with zipfile.ZipFile(path) as jar:
        for name in sorted(jar.namelist()):
            if name.endswith(".html"):
                yield name, jar.read(name).decode("utf-8", "replace")
