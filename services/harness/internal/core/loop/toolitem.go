package loop

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

	lru "github.com/hashicorp/golang-lru/v2"

	"kaged.dev/pkg/llm"
)

// item is an item of the chain as canonical JSON. value is the decoded JSON, read only, or nil if it was not decoded.
type item struct {
	json  []byte
	value any
}

// decoded returns the item as a plain JSON value.
func (i item) decoded() (v any, err error) {
	if i.value != nil {
		return i.value, nil
	}
	err = json.Unmarshal(i.json, &v)
	return v, err
}

// keptToolItems is how many lists of tools have their item kept: a list per agent and per set of permissions.
const keptToolItems = 64

// toolItems keeps the items of lists of tools. To sort the keys of the schemas of thirty tools takes 1 ms, and the
// first request of each run would wait for it.
var toolItems, _ = lru.New[[sha256.Size]byte, item](keptToolItems)

// toolsItemOf returns the item of a list of tools.
func toolsItemOf(tools []llm.Tool) item {
	key := toolsKey(tools)
	if kept, ok := toolItems.Get(key); ok {
		return kept
	}
	list := make([]toolItem, len(tools))
	for i, t := range tools {
		list[i] = toolItem{t.Description, t.Name, canonicalSchema(t.Schema)}
	}
	made := item{json: canonical(toolsItem{"tools", list})}
	made.value, _ = made.decoded() // canonical JSON has a value
	toolItems.Add(key, made)
	return made
}

// toolsKey returns a hash of all that the item depends on.
func toolsKey(tools []llm.Tool) (key [sha256.Size]byte) {
	h := sha256.New()
	var size [8]byte
	for _, t := range tools {
		for _, text := range []string{t.Name, t.Description, string(t.Schema)} {
			binary.LittleEndian.PutUint64(size[:], uint64(len(text)))
			h.Write(size[:])
			h.Write([]byte(text))
		}
	}
	h.Sum(key[:0])
	return key
}
