package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

	lru "github.com/hashicorp/golang-lru/v2"

	"kaged.dev/pkg/llm"
)

// keptToolLists is how many encoded lists of tools are kept: one for each agent, set of permissions and form.
const keptToolLists = 64

// toolLists has the encoded lists of tools. The SDKs encode each schema three times over: thirty tools cost each
// request 0.4 ms before its record, and a list seldom changes within a run.
var toolLists, _ = lru.New[[sha256.Size]byte, []byte](keptToolLists)

// WithTools adds the member "tools" to params, a JSON object with another member, unless no tool is offered: APIs
// refuse an empty list. encode returns the list in the form of an API, which depends on the tools, their encoded names
// and form.
func WithTools(params []byte, form string, offered []llm.Tool, names *Names, encode func() any) ([]byte, error) {
	if len(offered) == 0 {
		return params, nil
	}
	key := toolListKey(form, offered, names)
	list, ok := toolLists.Get(key)
	if !ok {
		var err error
		if list, err = json.Marshal(encode()); err != nil {
			return nil, err
		}
		toolLists.Add(key, list)
	}
	end := len(params) - 1
	out := make([]byte, 0, len(params)+len(list)+len(`,"tools":`))
	out = append(append(out, params[:end]...), `,"tools":`...)
	return append(append(out, list...), params[end:]...), nil
}

// toolListKey returns a hash of all that the encoded list depends on.
func toolListKey(form string, offered []llm.Tool, names *Names) (key [sha256.Size]byte) {
	h := sha256.New()
	var size [8]byte
	add := func(text string) {
		binary.LittleEndian.PutUint64(size[:], uint64(len(text)))
		h.Write(size[:])
		h.Write([]byte(text))
	}
	add(form)
	for _, t := range offered {
		add(names.Encode(t.Name))
		add(t.Description)
		add(string(t.Schema))
	}
	h.Sum(key[:0])
	return key
}
