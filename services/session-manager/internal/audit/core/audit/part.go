package audit

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// minPart is the least size of a part that is stored apart from its record, in bytes.
const minPart = 1 << 10

// Part is a part of a payload that many records have in common and that is stored once in a month. It is zero for a
// record without such a part.
type Part struct {
	// ID is the month and the SHA-256 of Body.
	ID string
	// Body is the part as JSON.
	Body []byte
	// At is its index in the payload's list "new_items".
	At int
}

// Apart returns the payload of a record with a reference in the place of its part, and the part. Requests to models
// have one: the list of tools, which the first request of each session repeats.
func (r Record) Apart() (payload map[string]any, part Part) {
	items, ok := r.Payload["new_items"].([]any)
	if !ok || !strings.HasPrefix(r.EventType, "agent.pre_generation") {
		return r.Payload, Part{}
	}
	at := slices.IndexFunc(items, func(v any) bool {
		item, ok := v.(map[string]any)
		return ok && item["kind"] == "tools"
	})
	if at < 0 {
		return r.Payload, Part{}
	}
	body := Encode(items[at].(map[string]any), MaxPayload)
	if len(body) < minPart {
		return r.Payload, Part{}
	}
	month := time.UnixMilli(r.TS).UTC().Format("200601")
	part = Part{ID: fmt.Sprintf("%s:%x", month, sha256.Sum256(body)), Body: body, At: at}
	items = slices.Clone(items)
	items[at] = map[string]any{"kind": "tools", "part": part.ID}
	payload = maps.Clone(r.Payload)
	payload["new_items"] = items
	return payload, part
}
