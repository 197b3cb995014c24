package egress

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/services/sandbox-supervisor/internal/netns/netnstest"
)

// Refused UDP to the outside is reported by family and with its number, without the unknown destination. It is reported
// before the end of its command, and the end of the gate reports the rest.
func TestUDPIsTold(t *testing.T) {
	t.Parallel()
	send := func(address string, n int) []string {
		return []string{
			"bash",
			"-c",
			`for i in $(seq $2); do echo x >/dev/udp/$1/53; done; true`,
			"bash",
			address,
			strconv.Itoa(n),
		}
	}
	for _, way := range netnstest.Ways() {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			g := guard(t, way, newWorld(), []string{"api.example.com:443"}, nil)
			told := func(target string) (n int) {
				g.mu.Lock()
				defer g.mu.Unlock()
				for _, a := range g.journal.attempts {
					if a.Target == target && !a.Allowed && a.Rule == whyUDP {
						n += int(a.Count)
					}
				}
				return n
			}
			for _, c := range []struct {
				address      string
				n            int
				want4, want6 int
			}{
				{"198.18.0.2", 3, 0, 0}, // the address of api.example.com
				{"127.0.0.1", 3, 0, 0},
				{"8.8.8.8", 3, 3, 0},
				{"2001:4860:4860::8888", 2, 3, 2},
				{"8.8.8.8", 4, 7, 2}, // also within a second after an earlier report
			} {
				out, _ := g.Run(t, send(c.address, c.n)...)
				g.gate.Ended()
				if got4, got6 := told("UDP"), told("UDP over IPv6"); got4 != c.want4 || got6 != c.want6 {
					t.Errorf(
						"after %d times %s: %d and %d are told, want %d and %d: %s",
						c.n,
						c.address,
						got4,
						got6,
						c.want4,
						c.want6,
						out,
					)
				}
			}
			g.Run(t, send("1.1.1.1", 5)...)
			g.stop()
			if got := told("UDP"); got != 12 {
				t.Errorf("at the end %d are told, want 12", got)
			}
			g.gate.Began()
			g.gate.Ended() // for a command that was lost with its cage
			for _, a := range g.journal.attempts {
				if strings.Contains(a.Target, "api.example.com") {
					t.Errorf("UDP to the address of a name was taken for %+v", a)
				}
			}
		})
	}
}

// While a command runs, refused UDP is reported within about a second.
func TestUDPIsToldMeanwhile(t *testing.T) {
	t.Parallel()
	var running atomic.Bool
	running.Store(true)
	g := guard(t, netnstest.User, newWorld(), nil, func(o *Options) { o.Busy = running.Load })
	g.gate.Began()
	g.Run(t, "bash", "-c", "echo x >/dev/udp/8.8.8.8/53")
	g.expect(t, "UDP", false, "UDP does not leave a cage")
	g.Run(t, "bash", "-c", "echo x >/dev/udp/2001:4860:4860::8888/53")
	g.expect(t, "UDP over IPv6", false, "UDP does not leave a cage")
}

// A command may end before the gate is served; reporting its end waits for that.
func TestUDPBeforeTheGateIsServed(t *testing.T) {
	t.Parallel()
	counter, err := os.Open("/proc/self/net/snmp")
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	synctest.Test(t, func(t *testing.T) {
		u := newUnrouted(func() bool { return false }, func(string, uint64) {})
		ended := make(chan struct{})
		go func() { defer close(ended); u.ended() }()
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("the end was told of before anything was looked at")
		default:
		}
		u.watch([]*os.File{counter})
		<-ended
	})
}

// The counters are read while commands run, and once more after the last, and not otherwise.
func TestPaceOfLooking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Bool
		asked := 0
		u := newUnrouted(func() bool { asked++; return running.Load() }, func(string, uint64) {})
		looks := func() int {
			synctest.Wait()
			u.mu.Lock()
			defer u.mu.Unlock()
			n := asked
			asked = 0
			return n
		}
		time.Sleep(time.Hour)
		if n := looks(); n != 0 {
			t.Errorf("%d looks before the first command", n)
		}
		running.Store(true)
		u.began()
		u.began()
		time.Sleep(10*together + together/2)
		if n := looks(); n != 10 {
			t.Errorf("%d looks in ten seconds", n)
		}
		running.Store(false)
		time.Sleep(time.Hour)
		if n := looks(); n != 1 {
			t.Errorf("%d looks when nothing runs any more, want the last", n)
		}
		u.began()
		time.Sleep(time.Hour)
		if n := looks(); n != 1 {
			t.Errorf("%d looks for a short command, want one", n)
		}
		u.began()
		u.close()
		u.began()
		time.Sleep(time.Hour)
		if n := looks(); n != 0 {
			t.Errorf("%d looks after the end", n)
		}
	})
}
