package egress

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"kaged.dev/pkg/cage"
)

// names is the table of a cage that may reach two hosts.
func names() *table {
	return newTable([]cage.Rule{
		{Text: "api.example.com:443", Host: "api.example.com", Port: 443},
		{Text: "api.example.com:80", Host: "api.example.com", Port: 80},
		{Text: "xn--bcher-kva.example:443", Host: "xn--bcher-kva.example", Port: 443},
	}, nil)
}

// ask makes a query for a name in labels, which need not be one.
func ask(kind dnsmessage.Type, class dnsmessage.Class, labels ...string) []byte {
	query := []byte{0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, label := range labels {
		query = append(append(query, byte(len(label))), label...)
	}
	return append(query, 0, byte(kind>>8), byte(kind), byte(class>>8), byte(class))
}

// Names that the policy allows have their address, in the letters of the query; other names do not exist, other kinds
// of records are missing, other questions are refused, and other packets are unanswered.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const (
		ok, format, none, unknown, refused = dnsmessage.RCodeSuccess, dnsmessage.RCodeFormatError, dnsmessage.RCodeNameError, dnsmessage.RCodeNotImplemented, dnsmessage.RCodeRefused
		a, aaaa, https, ptr, in            = dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.Type(
			65,
		), dnsmessage.TypePTR, dnsmessage.ClassINET
	)
	edit := func(query []byte, change func(q []byte) []byte) []byte { return change(query) }
	allowed := ask(a, in, "api", "example", "com")
	for _, c := range []struct {
		name   string
		query  []byte
		code   dnsmessage.RCode
		answer string // the address or name
		denied string
	}{
		{"an allowed name", allowed, ok, "198.18.0.2", ""},
		{"mixed case", ask(a, in, "aPi", "EXAMPLE", "cOm"), ok, "198.18.0.2", ""},
		{"punycode", ask(a, in, "xn--bcher-kva", "example"), ok, "198.18.0.3", ""},
		{"AAAA of an allowed name", ask(aaaa, in, "api", "example", "com"), ok, "", ""},
		{"HTTPS of an allowed name", ask(https, in, "api", "example", "com"), ok, "", ""},
		{"localhost", ask(a, in, "localhost"), ok, "127.0.0.1", ""},
		{"below localhost", ask(aaaa, in, "app", "localhost"), ok, "::1", ""},
		{"an address of a name", ask(ptr, in, "2", "0", "18", "198", "in-addr", "arpa"), ok, "api.example.com.", ""},
		{"another address", ask(ptr, in, "8", "8", "8", "8", "in-addr", "arpa"), none, "", ""},
		{"another name", ask(a, in, "evil", "example"), none, "", "evil.example"},
		{"TXT of another name", ask(dnsmessage.TypeTXT, in, "c2VjcmV0", "evil", "example"), none, "", "c2vjcmv0.evil.example"},
		{"below an allowed name", ask(a, in, "x", "api", "example", "com"), none, "", "x.api.example.com"},
		{"above an allowed name", ask(a, in, "com"), none, "", "com"},
		{"the root", ask(a, in), none, "", ""},
		{"a NUL after an allowed name", ask(a, in, "api", "example", "com\x00"), none, "", `api.example.com\000`},
		{"a NUL and another name", ask(a, in, "api", "example", "com\x00", "evil"), none, "", `api.example.com\000.evil`},
		{"bytes that are no text", ask(a, in, "\xff\\ "), none, "", `\255\092\032`},
		{"a dot in a label", ask(a, in, "api.example", "com"), format, "", ""},
		{"a label of 63", ask(a, in, strings.Repeat("l", 63)), none, "", strings.Repeat("l", 63)},
		{"a label of 64", ask(a, in, strings.Repeat("l", 64)), format, "", ""},
		{"a name of 256", ask(a, in, strings.Repeat("l", 63), strings.Repeat("l", 63), strings.Repeat("l", 63), strings.Repeat("l", 63)), format, "", ""},
		{"a name that points at itself", []byte{1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}, format, "", ""},
		{"no question", []byte{1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, format, "", ""},
		{"two questions", edit(allowed, func(q []byte) []byte {
			two := append(append([]byte{}, q...), q[12:]...)
			two[5] = 2
			return two
		}), format, "", ""},
		{"cut off", allowed[:20], format, "", ""},
		{"class CHAOS", ask(dnsmessage.TypeTXT, dnsmessage.ClassCHAOS, "version", "bind"), refused, "", ""},
		{"everything", ask(dnsmessage.TypeALL, in, "api", "example", "com"), refused, "", ""},
		{"a zone", ask(dnsmessage.TypeAXFR, in, "evil", "example"), refused, "", ""},
		{"an update", edit(allowed, func(q []byte) []byte {
			update := append([]byte{}, q...)
			update[2] |= 5 << 3
			return update
		}), unknown, "", ""},
	} {
		response, denied := names().answer(c.query)
		if denied != c.denied {
			t.Errorf("%s: denied %q, want %q", c.name, denied, c.denied)
		}
		var m dnsmessage.Message
		if err := m.Unpack(response); err != nil {
			t.Errorf("%s: %v in % x", c.name, err, response)
			continue
		}
		if m.ID != uint16(c.query[0])<<8|uint16(c.query[1]) || !m.Response || m.RCode != c.code || len(response) > 512 {
			t.Errorf("%s: %+v, want code %s", c.name, m.Header, c.code)
		}
		got := ""
		for _, answer := range m.Answers {
			if answer.Header.Name != m.Questions[0].Name {
				t.Errorf("%s: the answer is for %s, asked was %s", c.name, answer.Header.Name, m.Questions[0].Name)
			}
			switch body := answer.Body.(type) {
			case *dnsmessage.AResource:
				got += netip.AddrFrom4(body.A).String()
			case *dnsmessage.AAAAResource:
				got += netip.AddrFrom16(body.AAAA).String()
			case *dnsmessage.PTRResource:
				got += body.PTR.String()
			}
		}
		if got != c.answer {
			t.Errorf("%s: %q, want %q", c.name, got, c.answer)
		}
		if len(m.Questions) == 1 && !strings.Contains(string(c.query), string(response[12:12+int(response[12])])) {
			t.Errorf("%s: the question came back in other letters", c.name)
		}
	}
	for name, query := range map[string][]byte{"nothing": nil, "half a header": allowed[:7], "a response": edit(allowed, func(q []byte) []byte {
		response := append([]byte{}, q...)
		response[2] |= 0x80
		return response
	})} {
		if response, denied := names().answer(query); response != nil || denied != "" {
			t.Errorf("%s has an answer: % x", name, response)
		}
	}
}

// FuzzAnswer holds that for any input an answer is short and well-formed, and has only addresses of the table.
func FuzzAnswer(f *testing.F) {
	f.Add(ask(dnsmessage.TypeA, dnsmessage.ClassINET, "api", "example", "com"))
	f.Add(ask(dnsmessage.TypeA, dnsmessage.ClassINET, "evil", "example"))
	f.Add([]byte{1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
	f.Add(ask(dnsmessage.TypePTR, dnsmessage.ClassINET, "2", "0", "18", "198", "in-addr", "arpa"))
	f.Fuzz(func(t *testing.T, query []byte) {
		response, _ := names().answer(query)
		if response == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(response); err != nil || len(response) > 1024 || !m.Response {
			t.Fatalf("% x answered by % x: %v", query, response, err)
		}
		for _, answer := range m.Answers {
			if a, ok := answer.Body.(*dnsmessage.AResource); ok {
				addr := netip.AddrFrom4(a.A)
				if _, known := names().hosts[addr]; !known && !addr.IsLoopback() {
					t.Fatalf("%s was given out", addr)
				}
			}
		}
	})
}
