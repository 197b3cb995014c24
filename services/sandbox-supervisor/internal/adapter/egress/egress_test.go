package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// A host has one address for all its ports, rules with addresses keep them, and equal rules give an equal plan.
func TestPlan(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	rules := []cage.Rule{
		{Text: "b.example:443", Host: "b.example", Port: 443},
		{Text: "a.example:443", Host: "a.example", Port: 443},
		{Text: "b.example:22", Host: "b.example", Port: 22},
		{Text: "b.example:22", Host: "b.example", Port: 22},
		{Text: "198.18.0.2:80", Addr: addr("198.18.0.2"), Port: 80},
		{Text: "127.0.0.1:53", Addr: addr("127.0.0.1"), Port: 53},
		{Text: "[2001:db8::7]:443", Addr: addr("2001:db8::7"), Port: 443},
		{Text: "[::ffff:10.0.0.1]:443", Addr: addr("::ffff:10.0.0.1"), Port: 443},
		{Text: "localhost:5432", Host: "localhost", Port: 5432},
		{Text: "0.0.0.0:80", Addr: addr("0.0.0.0"), Port: 80},
		{Text: "224.0.0.1:80", Addr: addr("224.0.0.1"), Port: 80},
	}
	want := netns.Plan{
		Addresses: []netip.Addr{addr("198.18.0.2"), addr("2001:db8::7"), addr("10.0.0.1")},
		Datagrams: []netip.AddrPort{netns.Resolver},
	}
	for _, at := range []string{
		"198.18.0.2:80", "127.0.0.1:53", "[2001:db8::7]:443", "10.0.0.1:443", // unchanged
		"198.18.0.3:443", "198.18.0.4:443", "198.18.0.3:22", "127.0.0.1:5432", // names, in the order of the rules
	} {
		want.Streams = append(want.Streams, netip.MustParseAddrPort(at))
	}
	for range 3 {
		if got := Plan(rules); !reflect.DeepEqual(got, want) {
			t.Fatalf("plan is %+v, want %+v", got, want)
		}
	}
	if got := Plan(nil); len(got.Streams) != 1 || got.Streams[0] != netns.Resolver {
		t.Errorf("without rules: %+v, want the resolver, which says no", got)
	}
	table := newTable(rules[:1], []Credential{{Host: "b.example", Port: 443}, {Host: "a.example", Port: 443}})
	if at := netip.MustParseAddrPort("198.18.0.2:80"); table.routes[at] == nil || len(table.plan.Streams) != 3 {
		t.Errorf("with a credential: %+v, want port 80 of the one host that a rule allows", table.plan)
	}
}

// Every range outside the public network has its class, and an address that embeds another has the class of the
// embedded one.
func TestClassify(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]scope{
		"93.184.216.34": public, "8.8.8.8": public, "2606:4700:4700::1111": public, "64:ff9b::5db8:d822": public,
		"172.32.0.1": public, "100.128.0.1": public,
		"10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private, "100.64.0.1": private,
		"fc00::1": private, "fd12::1": private, "127.0.0.1": private, "127.8.8.8": private, "::1": private,
		"64:ff9b::a00:1":  private,
		"169.254.169.254": never, "169.254.1.1": never, "100.100.100.200": never, "fd00:ec2::254": never,
		"168.63.129.16": never, "fe80::1": never,
		"fe80::1%eth0": never, "0.0.0.0": never, "0.1.2.3": never, "::": never, "255.255.255.255": never, "240.0.0.1": never,
		"224.0.0.1": never,
		"ff02::1":   never, "198.18.0.1": never, "198.19.255.255": never, "::ffff:8.8.8.8": never, "::ffff:127.0.0.1": never,
		"::127.0.0.1":    never,
		"2002:7f00:1::1": never, "2001::1": never, "64:ff9b:1::1": never, "64:ff9b::a9fe:a9fe": never, "2001:db8::1": never,
		"fec0::1":     never,
		"192.0.0.192": never, "192.88.99.1": never, "4000::1": never,
	} {
		if got, what := classify(netip.MustParseAddr(address)); got != want || (what == "") != (want == public) {
			t.Errorf("%s is %d (%s), want %d", address, got, what, want)
		}
	}
}

// The first attempt is reported at once, repeated ones together, a flood only as a count, and the end reports the rest.
func TestAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards told
		var told []contract.Attempt
		a := newAttempts(func(a contract.Attempt) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, a)
		})
		said := func() string {
			mu.Lock()
			defer mu.Unlock()
			var b strings.Builder
			for _, a := range told {
				fmt.Fprintf(&b, "%s %t x%d; ", a.Target, a.Allowed, a.Count)
			}
			told = nil
			return b.String()
		}
		for range 5 {
			a.add("a:1", true, "a:1")
		}
		a.add("b", false, "no")
		if got := said(); got != "a:1 true x1; b false x1; " {
			t.Errorf("at once: %s", got)
		}
		time.Sleep(together)
		synctest.Wait()
		if got := said(); got != "a:1 true x4; " {
			t.Errorf("after a second: %s", got)
		}
		a.add("a:1", true, "a:1")
		a.add("b", false, "no")
		if got := said(); got != "b false x1; " {
			t.Errorf("going on: %s, want a:1 held and b, which had stopped, at once", got)
		}
		a.addMany("b", false, "no", 7)
		a.settle()
		a.settle()
		if got := said(); got != "a:1 true x1; b false x7; " {
			t.Errorf("when a command has ended: %s, want what was held, once", got)
		}
		a.add("a:1", true, "a:1")
		for n := range 1000 {
			a.add(fmt.Sprint("flood", n), false, "no")
		}
		if got := strings.Count(said(), "flood"); got != maxKinds-2 {
			t.Errorf("%d of a flood are told at once", got)
		}
		a.add("b", false, "no")
		a.close()
		if got := said(); got != fmt.Sprintf("a:1 true x1; b false x1; * false x%d; ", 1000-(maxKinds-2)) {
			t.Errorf("at the end: %s", got)
		}
		a.add("late", false, "no")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := said(); got != "" {
			t.Errorf("after the end: %s", got)
		}
	})
}

// A secret is hidden in every format, and overwritten in a body however it is split; no other byte is held back.
func TestSecret(t *testing.T) {
	t.Parallel()
	c := Credential{Header: "Authorization", Value: "Bearer abcdefgh1234"}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("it", "value", c.Value, "all", c)
	if shown := fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Value, c.Value) + log.String(); strings.Contains(
		shown,
		"abcdefgh",
	) {
		t.Errorf("the secret is shown: %s", shown)
	}
	text := "abcdefgh123 abcdefgh1234abcdefgh1234 Bearer abcdefgh1234Beare Bearer abcdefgh"
	want := "abcdefgh123 ************************ *******************Beare Bearer abcdefgh"
	for name, pieces := range map[string]io.Reader{
		"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
		"halves":       iotest.HalfReader(strings.NewReader(text)),
		"with its end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		ended := 0
		got, err := io.ReadAll(&masking{ReadCloser: io.NopCloser(pieces), words: c.words(), end: func() { ended++ }})
		if err != nil || string(got) != want || ended != 1 {
			t.Errorf("%s: %q, %v, ended %d times", name, got, err, ended)
		}
	}
	short := Credential{Value: "key"}
	if words := short.words(); len(words) > 0 {
		t.Errorf("%q would be overwritten in any text", words)
	}
	r, w := io.Pipe()
	defer r.Close()
	go func() { _, _ = io.WriteString(w, "data: 1\n\n") }() // ends when the body is read
	m := &masking{ReadCloser: r, words: c.words(), end: func() {}}
	buf := make([]byte, 64)
	if n, err := m.Read(buf); err != nil || string(buf[:n]) != "data: 1\n\n" {
		t.Errorf("an event came as %q, %v", buf[:n], err)
	}
}

// An answer of the outside resolver is cached for a time, a failure is not.
func TestRemembering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		fail := errors.New("no")
		lookup := remembering(func(_ context.Context, host string) ([]netip.Addr, error) {
			asked++
			if host == "bad" {
				return nil, fail
			}
			return []netip.Addr{netip.MustParseAddr("1.1.1.1")}, nil
		}, 2, time.Minute)
		for _, c := range []struct {
			host string
			want int
		}{{"a", 1}, {"a", 1}, {"bad", 2}, {"bad", 3}, {"b", 4}, {"a", 4}, {"c", 5}, {"b", 6}} {
			_, _ = lookup(t.Context(), c.host)
			if asked != c.want {
				t.Errorf("%s: asked %d times, want %d", c.host, asked, c.want)
			}
		}
		time.Sleep(2 * time.Minute)
		if _, _ = lookup(t.Context(), "c"); asked != 7 {
			t.Errorf("asked %d times, want again after its time", asked)
		}
	})
}
