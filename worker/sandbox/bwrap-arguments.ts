import type { Limits } from "./limits.ts";

export const WORKSPACE = "/workspace";
/** The account that the programs believe to be, whatever it is outside. */
const ACCOUNT_ID = 1000;
/** /dev/shm, which is memory too. */
const SHARED_MEMORY_BYTES = 64 * 1024 ** 2;
/**
 * Of /etc, by name: what programs need to start, to speak TLS and to tell the time. Nothing that a machine's operator
 * writes there for other programs (keys, tokens, git's and shells' settings) is among it.
 */
const ETC = [
  "alternatives",
  "ca-certificates.conf",
  "debian_version",
  "host.conf",
  "java",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "magic",
  "mime.types",
  "nsswitch.conf",
  "os-release",
  "pki/ca-trust",
  "pki/tls/certs",
  "protocols",
  "python3",
  "services",
  "ssl/certs",
  "ssl/openssl.cnf",
  "terminfo",
  "timezone",
];

export interface Mount {
  readonly host: string;
  readonly inside: string;
}

export interface SandboxShape {
  /** The session's folder. */
  readonly folder: string;
  /** passwd, group and hosts. */
  readonly etc: string;
  /** More of the host, read-only. */
  readonly readOnly: readonly Mount[];
  /** The host's directories at the root: those that are links, with their targets, and those that are not. */
  readonly system: readonly SystemDirectory[];
  readonly network: "none" | "host";
  readonly disableUserNamespaces: boolean;
  readonly limits: Pick<Limits, "tmpBytes">;
}

export interface SystemDirectory {
  readonly path: string;
  /** Null: a directory. */
  readonly linkTo: string | null;
}

/** The arguments of bubblewrap that make the sandbox, up to and with the `--` before the program. */
export function bwrapArguments(shape: SandboxShape): readonly string[] {
  const account = String(ACCOUNT_ID);
  return [
    // However the worker ends, the kernel ends all of this with it.
    "--die-with-parent",
    "--new-session",
    ...["--unshare-user", "--uid", account, "--gid", account],
    ...(shape.disableUserNamespaces ? ["--disable-userns"] : []),
    ...["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "mango"],
    ...(shape.network === "none" ? ["--unshare-net"] : []),
    ...shape.system.flatMap(({ path, linkTo }) =>
      linkTo === null ? ["--ro-bind", path, path] : ["--symlink", linkTo, path],
    ),
    ...directory("/etc"),
    ...ETC.flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]),
    ...(shape.network === "host" ? ["--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"] : []),
    ...["passwd", "group", "hosts"].flatMap((name) => ["--ro-bind", `${shape.etc}/${name}`, `/etc/${name}`]),
    ...["--proc", "/proc", "--dev", "/dev"],
    ...["--size", String(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"],
    ...["--perms", "1777", "--size", String(shape.limits.tmpBytes), "--tmpfs", "/tmp"],
    ...directory("/run"),
    ...directory("/var"),
    ...["--symlink", "/tmp", "/var/tmp"],
    ...shape.readOnly.flatMap(({ host, inside }) => ["--ro-bind", host, inside]),
    ...["--bind", shape.folder, WORKSPACE, "--chdir", WORKSPACE],
    // Both are memory without a bound of their own.
    ...["--remount-ro", "/dev", "--remount-ro", "/"],
    "--",
  ];
}

function directory(path: string): readonly string[] {
  return ["--perms", "0755", "--dir", path];
}

/**
 * A command line that becomes `user` before it makes the sandbox: for a worker that runs as root, whose programs must
 * not be root outside either (the kernel counts no processes of root's, and root's files would be theirs to read).
 *
 * That user may not be able to reach the folder and the other paths, so root first mounts them where it can, in a mount
 * namespace of their own. The steps become each other: bubblewrap's parent must be the worker itself, since a process
 * in between without the right to signal that user could not take it along when it dies.
 */
export function asUser(user: number, programs: RootPrograms, shape: SandboxShape): readonly string[] {
  const moved: SandboxShape = {
    ...shape,
    folder: met(0),
    etc: met(1),
    readOnly: shape.readOnly.map(({ inside }, index) => ({ host: met(index + 2), inside })),
  };
  const sources = [shape.folder, shape.etc, ...shape.readOnly.map(({ host }) => host)];
  return [
    ...[programs.unshare, "--mount", "--propagation", "private", "--"],
    ...["/bin/bash", "--noprofile", "--norc", "-c", MEET, "meet", String(sources.length), ...sources],
    ...[programs.setpriv, "--reuid", String(user), "--regid", String(user), "--clear-groups", "--"],
    programs.bwrap,
    ...bwrapArguments(moved),
  ];
}

/** In a /tmp of the namespace's own, which hides the host's. */
const MEETING_POINT = "/tmp/mango";
const met = (index: number) => `${MEETING_POINT}/${index}`;

/**
 * `meet <count> <source>… <command>…`: mounts each source under its number, and becomes the command. The sources are
 * opened before /tmp is hidden, which they may lie in.
 */
const MEET = `set -e
count=$1; shift; opened=()
for ((i = 0; i < count; i++)); do exec {fd}<"$1"; opened+=("$fd"); [ -d "$1" ] && kinds+=(d) || kinds+=(f); shift; done
mount -t tmpfs -o mode=0755,nosuid,nodev,size=1m tmpfs /tmp
mkdir -m 0755 ${MEETING_POINT}
for ((i = 0; i < count; i++)); do
  if [ "\${kinds[i]}" = d ]; then mkdir ${MEETING_POINT}/$i; else : >${MEETING_POINT}/$i; fi
  mount --no-canonicalize --bind "/proc/self/fd/\${opened[i]}" ${MEETING_POINT}/$i
done
for fd in "\${opened[@]}"; do exec {fd}<&-; done
exec "$@"`;

export interface RootPrograms {
  readonly bwrap: string;
  readonly setpriv: string;
  readonly unshare: string;
}
