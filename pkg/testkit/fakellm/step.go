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

// Action is one thing that a step expects or does.
type Action struct {
	verb   verb
	text   string
	name   string
	n      int
	size   int
	status int
	wait   time.Duration
	header http.Header
	// id is a call's id where it was given, empty for one that is left out.
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

// Say writes text, in deltas of a word each.
func Say(text string) Action { return Action{verb: verbSay, text: text} }

// Think writes readable thinking, in deltas of a word each. Anthropic's is signed, and OpenAI's Responses carry
// encrypted content with it: see [Signature]. Chat Completions write reasoning_content, as compatible servers do.
// Google's signature comes with the next call, or at the end.
func Think(text string) Action { return Action{verb: verbThink, text: text} }

// Redacted writes unreadable thinking: a redacted_thinking block with the data at Anthropic, a reasoning item without
// summary and with the data as its encrypted content in OpenAI's Responses, a signature without thought at Google; Chat
// Completions has no form for it.
func Redacted(data string) Action { return Action{verb: verbRedacted, text: data} }

// Tool writes a tool call. The name is dotted; the input is written as it is, also where it is no JSON.
func Tool(name, input string) Action { return Action{verb: verbTool, name: name, text: input} }

// ToolID is Tool with the call's id; an empty one is left out, as some servers do.
func ToolID(id, name, input string) Action {
	return Action{verb: verbTool, name: name, text: input, id: &id}
}

// Usage sets the usage that the answer reports. The provider's own way of counting is derived from it, so that a
// correct driver reports exactly u; counts that a format lacks (reasoning and cache writes in some) are lost. Without
// this action the sizes of the request and the answer are used.
func Usage(u llm.Usage) Action { return Action{verb: verbUsage, usage: u} }

// Stop sets the reason for stopping: "stop", "length", "refusal", "content_filter", or the provider's own word. Without
// it the reason is tool use where there is a call, else the end of the turn.
func Stop(reason string) Action { return Action{verb: verbStop, text: reason} }

// Delay waits. As a step's first action it holds back the answer's header too.
func Delay(d time.Duration) Action { return Action{verb: verbDelay, wait: d} }

// Pace waits d before each of the following deltas.
func Pace(d time.Duration) Action { return Action{verb: verbPace, wait: d} }

// Deltas writes the text of [DeltaText] in count deltas of size bytes with interval between them. The bytes are built
// once for all answers of the same shape. Without interval they leave in as few packets as they fit.
func Deltas(count, size int, interval time.Duration) Action {
	return Action{verb: verbDeltas, n: count, size: size, wait: interval}
}

// Status answers with an HTTP status, the provider's error object around message, and further headers given as names
// and values in turn. It must be the step's only doing, apart from expectations and delays.
func Status(code int, message string, headers ...string) Action {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h[headers[i]] = []string{headers[i+1]}
	}
	return Action{verb: verbStatus, status: code, text: message, header: h}
}

// Error writes the provider's error event into the stream, which ends there. Kind is such as overloaded_error.
func Error(kind, message string) Action { return Action{verb: verbError, name: kind, text: message} }

// Cut breaks the connection once n bytes of the answer's body have been written.
func Cut(n int) Action { return Action{verb: verbCut, n: n} }

// End ends the answer in good order once n bytes of its body have been written.
func End(n int) Action { return Action{verb: verbEnd, n: n} }

// Hang sends no more bytes until the client goes away or the server is closed. As a step's first action it withholds
// the header too.
func Hang() Action { return Action{verb: verbHang} }

// Raw writes bytes into the stream as they are.
func Raw(bytes string) Action { return Action{verb: verbRaw, text: bytes} }

// Garbage writes invalid JSON into the stream.
func Garbage() Action { return Raw("data: {\"type\":\"\x00\xff garbage\n\n") }

// Ping writes the event by which the provider keeps a connection alive.
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

// Signature returns the signature or encrypted content of readable thinking, so that tests can compare it with the
// returned one.
func Signature(thinking string) string { return "sig+/" + strconv.Quote(thinking) + "==" }
