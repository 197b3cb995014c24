package openai

import (
	"encoding/json"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// array is the encoded list of a conversation, at the beginning of a body.
type array struct {
	*wire.Writer
	opening string // JSON at the beginning of the body
	open    bool   // the list has an element
}

// before returns the JSON before the next element.
func (a *array) before() string {
	if a.open {
		return ","
	}
	return a.opening
}

// element adds an element, or the beginning of one, and reports whether it was added.
func (a *array) element(p wire.Piece) bool {
	p.Before = a.before() + p.Before
	added := a.Add(p)
	a.open = a.open || added
	return added
}

// resume skips the first messages if their pieces are kept, but not the last message. It returns the number of skipped
// messages; see [wire.Writer.Resume].
func (a *array) resume(last int, key string) int {
	n, before := a.Resume(last, key)
	a.open = a.open || before == ","
	return n
}

// ended notes that the first n messages are written.
func (a *array) ended(n int) { a.Ended(n, a.before()) }

// body returns the body with the other parameters behind the list, and tools, if any are offered, in the form of an
// API. The SDK encodes them. It does not encode the conversation, because its encoder takes 80 µs for each message of
// each call.
func (a *array) body(params any, form string, offered []llm.Tool, tools func() any) (*wire.Body, error) {
	end, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if end, err = wire.WithTools(end, form, offered, a.Names, tools); err != nil {
		return nil, err
	}
	end[0] = ',' // the members of the SDK's object follow the list
	closing := "]"
	if !a.open {
		closing = a.opening + "]"
	}
	return a.Body(append([]byte(closing), end...)), nil
}
