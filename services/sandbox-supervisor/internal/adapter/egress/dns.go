package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// maxQuery is the maximum size of a query in bytes.
	maxQuery = 4096
	// ttl is the lifetime of an answer in seconds; addresses are fixed for the cage's life.
	ttl = 300
)

// answer answers a query from the table only. response is nil for data that is not a query. denied is a requested name
// without an entry, to be reported; else it is empty.
func (t *table) answer(query []byte) (response []byte, denied string) {
	var p dnsmessage.Parser
	asked, err := p.Start(query)
	if err != nil || asked.Response {
		return nil, ""
	}
	header := dnsmessage.Header{
		ID: asked.ID, Response: true, OpCode: asked.OpCode, RecursionDesired: asked.RecursionDesired,
		RecursionAvailable: true,
	}
	if asked.OpCode != 0 {
		header.RCode = dnsmessage.RCodeNotImplemented
		return finish(header, nil, nil), ""
	}
	question, err := p.Question()
	if err != nil {
		header.RCode = dnsmessage.RCodeFormatError
		return finish(header, nil, nil), ""
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		header.RCode = dnsmessage.RCodeFormatError
		return finish(header, nil, nil), ""
	}
	switch question.Type {
	case dnsmessage.TypeALL, dnsmessage.TypeAXFR, typeIXFR:
		header.RCode = dnsmessage.RCodeRefused
		return finish(header, &question, nil), ""
	}
	if question.Class != dnsmessage.ClassINET {
		header.RCode = dnsmessage.RCodeRefused
		return finish(header, &question, nil), ""
	}
	name := normal(question.Name.String())
	body, exists := t.lookup(name, question.Type)
	if !exists {
		header.RCode = dnsmessage.RCodeNameError
		if !strings.HasSuffix(name, ".arpa") { // a reverse lookup is no attempt to reach a host
			denied = printable(name)
		}
	}
	return finish(header, &question, body), denied
}

// typeIXFR is the incremental zone transfer.
const typeIXFR dnsmessage.Type = 251

// lookup returns the record of a name and a type, or nil, and whether the name exists.
func (t *table) lookup(name string, kind dnsmessage.Type) (dnsmessage.ResourceBody, bool) {
	if name == localhost || strings.HasSuffix(name, "."+localhost) {
		switch kind {
		case dnsmessage.TypeA:
			return &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}, true
		case dnsmessage.TypeAAAA:
			return &dnsmessage.AAAAResource{AAAA: netip.IPv6Loopback().As16()}, true
		}
		return nil, true
	}
	if addr, ok := t.names[name]; ok {
		if kind == dnsmessage.TypeA {
			return &dnsmessage.AResource{A: addr.As4()}, true
		}
		return nil, true
	}
	host, ok := t.hosts[reversed(name)]
	if !ok {
		return nil, false
	}
	if back, err := dnsmessage.NewName(host + "."); err == nil && kind == dnsmessage.TypePTR {
		return &dnsmessage.PTRResource{PTR: back}, true
	}
	return nil, true
}

// reversed returns the address of a name like "4.3.2.1.in-addr.arpa", the zero Addr for other names.
func reversed(name string) netip.Addr {
	digits, ok := strings.CutSuffix(name, ".in-addr.arpa")
	if !ok {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(digits)
	if err != nil || !addr.Is4() {
		return netip.Addr{}
	}
	b := addr.As4()
	return netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]})
}

// finish builds a response. The answer repeats the question's name with its upper and lower case.
func finish(header dnsmessage.Header, question *dnsmessage.Question, body dnsmessage.ResourceBody) []byte {
	message := dnsmessage.Message{Header: header}
	if question != nil {
		message.Questions = []dnsmessage.Question{*question}
	}
	if body != nil {
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: ttl}, Body: body,
		}}
	}
	packed, err := message.Pack()
	if err != nil {
		return nil // the name cannot be packed: no response
	}
	return packed
}

// printable returns a name with every byte outside of names as \ddd.
func printable(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c > ' ' && c < 0x7f && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03d`, c)
		}
	}
	return b.String()
}
