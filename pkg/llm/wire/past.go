package wire

import (
	"slices"

	"kaged.dev/pkg/llm"
)

// past is what a [Writer] knows of the conversation of the request before. Following a conversation that has grown at
// its end costs time for the new messages only.
type past struct {
	messages []llm.Message // in normal form
	tools    []string      // the names of the offered tools
	calls    []string      // the distinct names of the calls, in order
	ids      *idSet        // the ids of the calls
	names    *Names
	key      string // see [Writer.Resume]
	ends     []messageEnd
}

// messageEnd is a place between two messages at which the encoding can be resumed.
type messageEnd struct {
	messages, pieces int
	state            string
}

// follow makes p the past of a request with the given conversation and tools. It returns the conversation in normal
// form, and the number of messages at its beginning that are the same and keep their names.
func (p *past) follow(given []llm.Message, tools []llm.Tool) (messages []llm.Message, same int) {
	same = llm.Common(given, p.messages)
	messages = given
	if !llm.Normal(given, same) {
		messages, same = llm.Normalize(given), 0
	}
	from := same
	if len(appendCalls(nil, p.messages[same:])) > 0 {
		p.calls, p.names, p.ids, from = nil, nil, nil, 0
	}
	if p.ids == nil {
		p.ids = &idSet{}
	}
	// The ids of calls that the normal form lacks are used, too.
	p.ids.add(given[from:])
	known := len(p.calls)
	p.calls = appendCalls(p.calls, messages[from:])
	p.messages = messages
	if p.names == nil || len(p.calls) > known || !p.offers(tools) {
		p.tools = p.tools[:0:0]
		for _, t := range tools {
			p.tools = append(p.tools, t.Name)
		}
		p.names, same = newNames(p.tools, p.calls), 0
	}
	return messages, same
}

func (p *past) offers(tools []llm.Tool) bool {
	return slices.EqualFunc(p.tools, tools, func(name string, t llm.Tool) bool { return name == t.Name })
}

// appendCalls appends the names of calls that the list lacks.
func appendCalls(names []string, messages []llm.Message) []string {
	for _, m := range messages {
		for _, b := range m.Blocks {
			if b.Call != nil && !slices.Contains(names, b.Call.Name) {
				names = append(names, b.Call.Name)
			}
		}
	}
	return names
}

// cut forgets the places behind the first n pieces.
func (p *past) cut(pieces int) {
	for len(p.ends) > 0 && p.ends[len(p.ends)-1].pieces > pieces {
		p.ends = p.ends[:len(p.ends)-1]
	}
}
