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

// ask makes a query for a name in labels, which need not be valid.
func ask(kind dnsmessage.Type, class dnsmessage.Class, labels ...string) []byte {
	query := []byte{0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, label := range labels {
		query = append(append(query, byte(len(label))), label...)
	}
	return append(query, 0, byte(kind>>8), byte(kind), byte(class>>8), byte(class))
}

const (
	codeOK, codeFormat, codeNoName = dnsmessage.RCodeSuccess, dnsmessage.RCodeFormatError, dnsmessage.RCodeNameError
	codeUnknown, codeRefused       = dnsmessage.RCodeNotImplemented, dnsmessage.RCodeRefused
	typeA, typeAAAA, typeHTTPS     = dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.Type(65)
	typePTR, classIN               = dnsmessage.TypePTR, dnsmessage.ClassINET
)

var allowedQuery = ask(typeA, classIN, "api", "example", "com")

// edited returns the allowed query after a change.
func edited(change func(q []byte) []byte) []byte { return change(allowedQuery) }

// answerCases are queries with the expected code, the address or name in the answer, and the denied name.
var answerCases = []struct {
	name   string
	query  []byte
	code   dnsmessage.RCode
	answer string
	denied string
}{
	{"an allowed name", allowedQuery, codeOK, "198.18.0.2", ""},
	{"mixed case", ask(typeA, classIN, "aPi", "EXAMPLE", "cOm"), codeOK, "198.18.0.2", ""},
	{"punycode", ask(typeA, classIN, "xn--bcher-kva", "example"), codeOK, "198.18.0.3", ""},
	{"AAAA of an allowed name", ask(typeAAAA, classIN, "api", "example", "com"), codeOK, "", ""},
	{"HTTPS of an allowed name", ask(typeHTTPS, classIN, "api", "example", "com"), codeOK, "", ""},
	{"localhost", ask(typeA, classIN, "localhost"), codeOK, "127.0.0.1", ""},
	{"below localhost", ask(typeAAAA, classIN, "app", "localhost"), codeOK, "::1", ""},
	{
		"an address of a name", ask(typePTR, classIN, "2", "0", "18", "198", "in-addr", "arpa"), codeOK, "api.example.com.",
		"",
	},
	{"another address", ask(typePTR, classIN, "8", "8", "8", "8", "in-addr", "arpa"), codeNoName, "", ""},
	{"another name", ask(typeA, classIN, "evil", "example"), codeNoName, "", "evil.example"},
	{
		"TXT of another name", ask(dnsmessage.TypeTXT, classIN, "c2VjcmV0", "evil", "example"), codeNoName, "",
		"c2vjcmv0.evil.example",
	},
	{"below an allowed name", ask(typeA, classIN, "x", "api", "example", "com"), codeNoName, "", "x.api.example.com"},
	{"above an allowed name", ask(typeA, classIN, "com"), codeNoName, "", "com"},
	{"the root", ask(typeA, classIN), codeNoName, "", ""},
	{
		"a NUL after an allowed name", ask(typeA, classIN, "api", "example", "com\x00"), codeNoName, "",
		`api.example.com\000`,
	},
	{
		"a NUL and another name", ask(typeA, classIN, "api", "example", "com\x00", "evil"), codeNoName, "",
		`api.example.com\000.evil`,
	},
	{"bytes that are no text", ask(typeA, classIN, "\xff\\ "), codeNoName, "", `\255\092\032`},
	{"a dot in a label", ask(typeA, classIN, "api.example", "com"), codeFormat, "", ""},
	{"a label of 63", ask(typeA, classIN, strings.Repeat("l", 63)), codeNoName, "", strings.Repeat("l", 63)},
	{"a label of 64", ask(typeA, classIN, strings.Repeat("l", 64)), codeFormat, "", ""},
	{
		"a name of 256",
		ask(typeA, classIN, strings.Repeat("l", 63), strings.Repeat("l", 63), strings.Repeat("l", 63),
			strings.Repeat("l", 63)), codeFormat, "", "",
	},
	{"a name that points at itself", []byte{1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}, codeFormat, "", ""},
	{"no question", []byte{1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, codeFormat, "", ""},
	{"two questions", edited(func(q []byte) []byte {
		two := append(append([]byte{}, q...), q[12:]...)
		two[5] = 2
		return two
	}), codeFormat, "", ""},
	{"cut off", allowedQuery[:20], codeFormat, "", ""},
	{"class CHAOS", ask(dnsmessage.TypeTXT, dnsmessage.ClassCHAOS, "version", "bind"), codeRefused, "", ""},
	{"everything", ask(dnsmessage.TypeALL, classIN, "api", "example", "com"), codeRefused, "", ""},
	{"a zone", ask(dnsmessage.TypeAXFR, classIN, "evil", "example"), codeRefused, "", ""},
	{"an update", edited(func(q []byte) []byte {
		update := append([]byte{}, q...)
		update[2] |= 5 << 3
		return update
	}), codeUnknown, "", ""},
}

// Names that the policy allows have their address, in the query's spelling. Other names do not exist, other record
// types are missing, other queries are refused, and other packets get no answer.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range answerCases {
		t.Run(c.name, func(t *testing.T) {
			response, denied := names().answer(c.query)
			if denied != c.denied {
				t.Errorf("denied %q, want %q", denied, c.denied)
			}
			var m dnsmessage.Message
			if err := m.Unpack(response); err != nil {
				t.Errorf("%v in % x", err, response)
				return
			}
			if m.ID != uint16(c.query[0])<<8|uint16(c.query[1]) || !m.Response || m.RCode != c.code || len(response) > 512 {
				t.Errorf("%+v, want code %s", m.Header, c.code)
			}
			got := ""
			for _, answer := range m.Answers {
				if answer.Header.Name != m.Questions[0].Name {
					t.Errorf("the answer is for %s, asked was %s", answer.Header.Name, m.Questions[0].Name)
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
				t.Errorf("%q, want %q", got, c.answer)
			}
			if len(m.Questions) == 1 && !strings.Contains(string(c.query), string(response[12:12+int(response[12])])) {
				t.Error("the question came back in other letters")
			}
		})
	}
}

// A message that is not a query gets no answer.
func TestNoAnswers(t *testing.T) {
	t.Parallel()
	for name, query := range map[string][]byte{
		"nothing": nil, "half a header": allowedQuery[:7],
		"a response": edited(func(q []byte) []byte {
			response := append([]byte{}, q...)
			response[2] |= 0x80
			return response
		}),
	} {
		if response, denied := names().answer(query); response != nil || denied != "" {
			t.Errorf("%s has an answer: % x", name, response)
		}
	}
}

// FuzzAnswer checks that for any input an answer is short and well-formed, and has only addresses of the table.
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
