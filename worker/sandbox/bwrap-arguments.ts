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
 * That user may not be able to reach the folder and the other paths, so they are first mounted where it can.
 */
export function asUser(user: number, programs: RootPrograms, shape: SandboxShape): readonly string[] {
  const at = (name: string) => `${MEETING_POINT}/${name}`;
  const moved: SandboxShape = {
    ...shape,
    folder: at("workspace"),
    etc: at("etc"),
    readOnly: shape.readOnly.map(({ inside }, index) => ({ host: at(`read-only-${index}`), inside })),
  };
  return [
    programs.bwrap,
    "--die-with-parent",
    ...["--dev-bind", "/", "/", "--tmpfs", "/tmp", ...directory(MEETING_POINT)],
    ...["--bind", shape.folder, moved.folder, "--ro-bind", shape.etc, moved.etc],
    ...shape.readOnly.flatMap(({ host }, index) => ["--ro-bind", host, at(`read-only-${index}`)]),
    ...["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"],
    "--",
    ...[programs.setpriv, "--reuid", String(user), "--regid", String(user), "--clear-groups", "--"],
    programs.bwrap,
    ...bwrapArguments(moved),
  ];
}

/** In a /tmp of the sandbox's own, which hides the host's. */
const MEETING_POINT = "/tmp/mango";

export interface RootPrograms {
  readonly bwrap: string;
  readonly setpriv: string;
}
