package netns_test

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/netns"
	"kaged.dev/services/sandbox-supervisor/internal/netns/netnstest"
)

func TestMain(m *testing.M) {
	if netnstest.Invoked() {
		netnstest.Main()
	}
	goleak.VerifyTestMain(m)
}

// plan is a plan with each kind of address.
func plan() netns.Plan {
	return netns.Plan{
		Addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("2001:db8::7")},
		Datagrams: []netip.AddrPort{netns.Resolver},
		Streams: []netip.AddrPort{
			netns.Resolver, netip.MustParseAddrPort("198.18.0.2:443"), netip.MustParseAddrPort("198.19.255.254:80"),
			netip.MustParseAddrPort(
				"10.1.2.3:443",
			), netip.MustParseAddrPort("[2001:db8::7]:443"), netip.MustParseAddrPort("127.0.0.1:5432"),
		},
	}
}

// In each kind of namespace the sockets of a plan are at their addresses, and all other traffic is refused at once.
func TestSetup(t *testing.T) {
	t.Parallel()
	for _, way := range netnstest.Ways() {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			space := netnstest.Open(t, way, plan())
			defer closeAll(space.Sockets)
			sockets := len(plan().Datagrams) + len(plan().Streams) + 1
			if len(space.Sockets) != sockets+2 {
				t.Fatalf("%d descriptors, want %d with the one that watches and two that count", len(space.Sockets), sockets+2)
			}
			for _, fd := range space.Sockets[:sockets] {
				flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				if flags&unix.O_NONBLOCK == 0 {
					t.Errorf("socket %d blocks", fd)
				}
			}
			for _, at := range plan().Streams {
				conn, err := space.Dial("tcp", at.String())
				if err != nil {
					t.Errorf("%s: %v", at, err)
					continue
				}
				conn.Close()
			}
			for _, c := range []struct{ network, at, want string }{
				{"tcp", "198.18.0.2:80", "refused"},     // the address of a name, another port
				{"tcp", "198.18.77.1:443", "refused"},   // an address without a name
				{"tcp", "10.1.2.3:80", "refused"},       // the address of a rule, another port
				{"tcp", "93.184.216.34:443", "refused"}, // an outside address
				{"tcp", "169.254.169.254:80", "refused"},
				{"tcp", "[2606:4700::1111]:443", "refused"},
				{"tcp", "127.0.0.1:8080", "refused"},
				{"udp", "8.8.8.8:53", "unreachable"},
				{"udp", "198.18.0.2:443", "no route"}, // QUIC
				{"udp", "10.1.2.3:443", "no route"},
				{"udp", "[2001:4860:4860::8888]:53", "unreachable"},
			} {
				conn, err := space.Dial(c.network, c.at)
				if err == nil {
					conn.Close()
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s to %s: %v, want it %s", c.network, c.at, err, c.want)
				}
			}
		})
	}
}

// The watching socket sees refused connection attempts, and no traffic of the cage itself.
func TestWatch(t *testing.T) {
	t.Parallel()
	space := netnstest.Open(t, netnstest.User, plan())
	at := len(space.Sockets) - 3
	watch := os.NewFile(uintptr(space.Sockets[at]), "watch")
	defer watch.Close()
	// A descriptor closed twice may belong to another test the second time.
	defer closeAll(slices.Delete(space.Sockets, at, at+1))
	tried := []string{"198.18.0.2:443", "8.8.8.8:53", "[2606:4700::1111]:443", "198.18.0.2:8443"}
	for _, at := range append([]string{"127.0.0.1:9", "[::1]:9"}, tried...) {
		if conn, err := space.Dial("tcp", at); err == nil {
			conn.Close()
		}
	}
	packet := make([]byte, 256)
	for _, want := range tried {
		n, err := watch.Read(packet)
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := netns.Destination(packet[:n]); !ok || at.String() != want {
			t.Errorf("saw %s, want %s", at, want)
		}
	}
}

// In each kind of namespace only refused UDP to the outside is counted, for each family: no connection, no query, and
// no UDP to the policy's addresses, which some resolvers use to find the best one.
func TestUnrouted(t *testing.T) {
	t.Parallel()
	for _, way := range netnstest.Ways() {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			space := netnstest.Open(t, way, plan())
			defer closeAll(space.Sockets)
			counted := func() (n [2]uint64) {
				t.Helper()
				text := make([]byte, netns.CountersSize)
				for i, fd := range space.Sockets[len(space.Sockets)-2:] {
					length, err := unix.Pread(fd, text, 0)
					if err != nil {
						t.Fatal(err)
					}
					count, ipv6, ok := netns.Unrouted(text[:length])
					if !ok || ipv6 != (i == 1) {
						t.Fatalf("%t, IPv6 %t, in %s", ok, ipv6, text[:length])
					}
					n[i] = count
				}
				return n
			}
			for _, to := range []string{
				"tcp 8.8.8.8:53", "tcp [2606:4700::1111]:443", "tcp 198.18.0.2:80", "tcp 224.0.0.251:80", "tcp 127.0.0.1:9",
				"udp 127.0.0.1:9", "udp [::1]:9", "udp 198.18.0.1:9", // the cage's own
				"udp 198.18.0.2:443", "udp 198.19.7.7:9", "udp 10.1.2.3:443", "udp [2001:db8::7]:443", // the policy's
			} {
				network, at, _ := strings.Cut(to, " ")
				if conn, err := space.Dial(network, at); err == nil {
					_, _ = conn.Write([]byte("x"))
					conn.Close()
				}
			}
			if n := counted(); n != [2]uint64{} {
				t.Errorf("%d were counted that are no datagrams to the outside", n)
			}
			for at, want := range map[string][2]uint64{
				"8.8.8.8:53": {1, 0}, "255.255.255.255:67": {1, 0}, "224.0.0.251:5353": {1, 0}, "[::ffff:9.9.9.9]:53": {1, 0},
				"[2001:4860:4860::8888]:53": {0, 1}, "[ff02::fb]:5353": {0, 1},
			} {
				before := counted()
				send := `import socket, sys
family, _, _, _, to = socket.getaddrinfo(sys.argv[1], int(sys.argv[2]), type=socket.SOCK_DGRAM)[0]
s = socket.socket(family, socket.SOCK_DGRAM)
if family == socket.AF_INET: s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
try: s.sendto(b"x", to)
except OSError as e: print(e)`
				to := netip.MustParseAddrPort(at)
				out, _ := space.Run(t, "/usr/bin/python3", "-c", send, to.Addr().String(), strconv.Itoa(int(to.Port())))
				after := counted()
				if got := [2]uint64{after[0] - before[0], after[1] - before[1]}; got != want ||
					!strings.Contains(out, "Network is unreachable") {
					t.Errorf("%s: %d were counted, want %d, of %s", at, got, want, out)
				}
			}
		})
	}
}

// A text that is not the beginning of counters counts zero.
func TestUnroutedText(t *testing.T) {
	t.Parallel()
	const (
		four = "Ip: Forwarding OutNoRoutes ReasmOKs\nIp: 1 42 0\nIcmp: InMsgs\nIcmp: 7\n"
		six  = "Ip6OutDiscards     \t1\nIp6OutNoRoutes     \t43\nIp6X 1\n"
	)
	if n, ipv6, ok := netns.Unrouted([]byte(four)); n != 42 || ipv6 || !ok {
		t.Errorf("IPv4: %d, %t, %t", n, ipv6, ok)
	}
	if n, ipv6, ok := netns.Unrouted([]byte(six)); n != 43 || !ipv6 || !ok {
		t.Errorf("IPv6: %d, %t, %t", n, ipv6, ok)
	}
	for _, text := range []string{
		"", "\n", "Ip:", "Ip: OutNoRoutes\n", "Ip: OutNoRoutes\nIp: 42", "Ip: a OutNoRoutes\nIp:\n",
		"Ip: OutNoRoutes\nIp: x\n", "Ip: a\nIp: 1\n",
		"Ip6OutNoRoutes 4", "Ip6OutNoRoutes\n", "Ip6OutNoRoutes -1\n",
	} {
		if n, _, ok := netns.Unrouted([]byte(text)); ok {
			t.Errorf("%q counts %d", text, n)
		}
	}
}

// A server in the cage keeps its port: kaged's listeners have their own addresses.
func TestPortsStayFree(t *testing.T) {
	t.Parallel()
	space := netnstest.Open(
		t,
		netnstest.User,
		netns.Plan{Streams: []netip.AddrPort{netip.MustParseAddrPort("198.18.0.2:8080")}},
	)
	defer closeAll(space.Sockets)
	if out, code := space.Run(t, "python3", "-c", "import socket; s=socket.socket(); s.bind(('127.0.0.1', 8080)); "+
		"s.listen()"); code != 0 {
		t.Errorf("binding 127.0.0.1:8080: %s", out)
	}
}

// A plan that cannot be set up is refused with the address that prevents it.
func TestSetupFails(t *testing.T) {
	t.Parallel()
	twice := netip.MustParseAddrPort("198.18.0.2:443")
	_, err := netnstest.Try(t, netnstest.User, netns.Plan{Streams: []netip.AddrPort{twice, twice}})
	if err == nil || !strings.Contains(err.Error(), "198.18.0.2:443: address already in use") {
		t.Errorf("two listeners at an address: %v", err)
	}
}

// Truncated and unknown packets have no destination.
func TestDestination(t *testing.T) {
	t.Parallel()
	whole := append([]byte{0x46, 8: 0, 9: 6, 16: 8, 17: 8, 18: 4, 19: 4, 23: 0}, 0x99, 0x99, 0, 53)
	if at, ok := netns.Destination(whole); !ok || at.String() != "8.8.4.4:53" {
		t.Errorf("with options: %s, %t", at, ok)
	}
	for n := range len(whole) {
		if at, ok := netns.Destination(whole[:n]); ok {
			t.Errorf("%d bytes lead to %s", n, at)
		}
	}
	if _, ok := netns.Destination(make([]byte, 64)); ok {
		t.Error("zeroes lead somewhere")
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
