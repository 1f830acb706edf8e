"""The network, in all its families: nothing leaves, and nothing of the host is reached."""

from __future__ import annotations

from speceyes.sandbox.conformance.checks import Checks

CHECKS = Checks("network")

CHECKS.refused(
    "listener_on_the_host",
    "A listener on the host's loopback address cannot be reached",
    lambda host: (
        f"""
    import socket
    attempt("connect", lambda: socket.create_connection(("127.0.0.1", {host.tcp_port}), 5))
    attempt("connect v6", lambda: socket.create_connection(("::1", {host.tcp_port}), 5))
    """
    ),
)
CHECKS.refused(
    "packets",
    "No packet reaches the host, such as a name look-up that carries data",
    lambda host: (
        f"""
    import socket
    def send():
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"key", ("127.0.0.1", {host.udp_port}))
    attempt("send", send)
    """
    ),
)
CHECKS.refused(
    "names",
    "No name can be looked up",
    """
    import socket
    attempt("look up", lambda: socket.getaddrinfo("sandbox.invalid", 80))
    attempt("resolver", lambda: socket.gethostbyname("localhost.invalid"))
    """,
)
CHECKS.refused(
    "web",
    "No page can be fetched",
    lambda host: (
        f"""
    import urllib.request
    attempt("fetch", lambda: urllib.request.urlopen("http://127.0.0.1:{host.tcp_port}/", timeout=5).read())
    """
    ),
)
CHECKS.refused(
    "socket_file",
    "A socket file of the host cannot be reached",
    lambda host: (
        f"""
    import socket
    attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect({str(host.local_socket)!r}))
    for path in ("/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket"):
        attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
    """
    ),
)
CHECKS.refused(
    "abstract_socket",
    "An abstract socket of the host cannot be reached",
    lambda host: (
        f"""
    import socket
    attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect("\\0" + {host.abstract_socket!r}))
    """
    ),
)
CHECKS.refused(
    "unusual_families",
    "Raw packets, netlink, Bluetooth, virtual-machine sockets and the kernel's ciphers cannot be opened",
    """
    import socket
    kinds = {"packet": (17, 3, 0), "raw": (2, 3, 1), "netlink": (16, 3, 0), "bluetooth": (31, 3, 1),
             "vsock": (40, 1, 0),             "alg": (38, 5, 0), "can": (29, 3, 1), "tipc": (30, 1, 0)}
    for name, (family, kind, protocol) in kinds.items():
        attempt(name, lambda: socket.socket(family, kind, protocol))
    """,
)
CHECKS.refused(
    "listening",
    "The code cannot listen either",
    """
    import socket
    attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)))
    attempt("pair of another family", lambda: socket.socketpair(socket.AF_INET))
    """,
)
