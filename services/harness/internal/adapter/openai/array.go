package openai

import (
	"encoding/json"

	"kaged.dev/pkg/llm/wire"
)

// array is the list of a conversation at the beginning of a body.
type array struct {
	*wire.Writer
	opening string // of the body
	open    bool   // the list has an element
}

// before returns the JSON before the next element.
func (a *array) before() string {
	if a.open {
		return ","
	}
	return a.opening
}

// element adds an element, or the beginning of one.
func (a *array) element(p wire.Piece) bool {
	p.Before = a.before() + p.Before
	added := a.Add(p)
	a.open = a.open || added
	return added
}

// body returns the body with the parameters of the SDK, which encodes everything but the conversation: for a message of
// it, its encoder takes 80 µs, at each call.
func (a *array) body(params any) (*wire.Body, error) {
	end, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	end[0] = ',' // the object of the SDK goes on behind the list
	closing := "]"
	if !a.open {
		closing = a.opening + "]"
	}
	return a.Body(append([]byte(closing), end...)), nil
}
