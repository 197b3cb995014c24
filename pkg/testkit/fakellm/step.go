package fakellm

import (
	"net/http"
	"strconv"
	"time"

	"kaged.dev/pkg/llm"
)

// Step is the answer to one request: the conditions on the request, and the actions, in order.
type Step []Action

// Steps lists the steps of a script.
func Steps(steps ...Step) []Step { return steps }

// Action is one expectation or one action of a step.
type Action struct {
	verb   verb
	text   string
	name   string
	n      int
	size   int
	status int
	wait   time.Duration
	header http.Header
	// id is the given id of a call, empty if it is to be left out.
	id    *string
	usage llm.Usage
	gate  *Gate
	want  *expectation
}

type verb int

const (
	verbGot verb = iota
	verbSay
	verbThink
	verbRedacted
	verbTool
	verbUsage
	verbStop
	verbDelay
	verbPace
	verbDeltas
	verbStatus
	verbError
	verbCut
	verbEnd
	verbHang
	verbRaw
	verbPing
	verbGate
)

// Say writes text, in deltas of one word each.
func Say(text string) Action { return Action{verb: verbSay, text: text} }

// Think writes readable thinking, in deltas of one word each. Anthropic's is signed, and OpenAI's Responses have
// encrypted content: see [Signature]. Chat Completions use reasoning_content, as compatible servers do. Google's
// signature is sent with the next call, or at the end.
func Think(text string) Action { return Action{verb: verbThink, text: text} }

// Redacted writes unreadable thinking: a redacted_thinking block with the data at Anthropic, a reasoning item without
// summary and with the data as its encrypted content in OpenAI's Responses, a signature without thought at Google; Chat
// Completions has no form for it.
func Redacted(data string) Action { return Action{verb: verbRedacted, text: data} }

// Tool writes a tool call. The name is dotted; the input is written unchanged, even if it is not JSON.
func Tool(name, input string) Action { return Action{verb: verbTool, name: name, text: input} }

// ToolID is Tool with the call's id; an empty id is left out, as by some servers.
func ToolID(id, name, input string) Action {
	return Action{verb: verbTool, name: name, text: input, id: &id}
}

// Usage sets the usage that the answer reports. It is converted to the provider's way of counting, so that a correct
// driver reports exactly u; counts that a format does not have (reasoning and cache writes in some) are lost. Without
// this action the usage is derived from the sizes of the request and the answer.
func Usage(u llm.Usage) Action { return Action{verb: verbUsage, usage: u} }

// Stop sets the stop reason: "stop", "length", "refusal", "content_filter", or the provider's own word. By default it
// is tool use if there is a call, else the end of the turn.
func Stop(reason string) Action { return Action{verb: verbStop, text: reason} }

// Delay waits. As a step's first action it delays the answer's header too.
func Delay(d time.Duration) Action { return Action{verb: verbDelay, wait: d} }

// Pace waits d before each of the following deltas.
func Pace(d time.Duration) Action { return Action{verb: verbPace, wait: d} }

// Deltas writes the text of [DeltaText] in count deltas of size bytes with interval between them. The bytes are built
// once for all answers of the same shape. Without interval they are sent in as few packets as possible.
func Deltas(count, size int, interval time.Duration) Action {
	return Action{verb: verbDeltas, n: count, size: size, wait: interval}
}

// Status answers with an HTTP status, the provider's error object around message, and additional headers as alternating
// names and values. A step with it has no other actions except expectations and delays.
func Status(code int, message string, headers ...string) Action {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h[headers[i]] = []string{headers[i+1]}
	}
	return Action{verb: verbStatus, status: code, text: message, header: h}
}

// Error writes the provider's error event into the stream, which ends there. An example of kind is overloaded_error.
func Error(kind, message string) Action { return Action{verb: verbError, name: kind, text: message} }

// Cut breaks the connection once n bytes of the answer's body have been written.
func Cut(n int) Action { return Action{verb: verbCut, n: n} }

// End ends the answer cleanly once n bytes of its body have been written.
func End(n int) Action { return Action{verb: verbEnd, n: n} }

// Hang sends nothing more until the client leaves or the server is closed. As a step's first action it withholds the
// header too.
func Hang() Action { return Action{verb: verbHang} }

// Raw writes the given bytes into the stream.
func Raw(bytes string) Action { return Action{verb: verbRaw, text: bytes} }

// Garbage writes invalid JSON into the stream.
func Garbage() Action { return Raw("data: {\"type\":\"\x00\xff garbage\n\n") }

// Ping writes the provider's keep-alive event.
func Ping() Action { return Action{verb: verbPing} }

// Wait waits until the gate is open.
func Wait(g *Gate) Action { return Action{verb: verbGate, gate: g} }

// DeltaText returns the text that [Deltas] writes: each delta is its number, padded with zeros to size bytes with a
// space at the end.
func DeltaText(count, size int) string {
	var b []byte
	for i := range count {
		b = appendDelta(b, i, size)
	}
	return string(b)
}

func appendDelta(b []byte, i, size int) []byte {
	n := strconv.Itoa(i)
	for range size - 1 - len(n) {
		b = append(b, '0')
	}
	b = append(b, n...)
	return append(b, ' ')
}

// Signature returns the signature or encrypted content of readable thinking, for comparison with the one sent back.
func Signature(thinking string) string { return "sig+/" + strconv.Quote(thinking) + "==" }
