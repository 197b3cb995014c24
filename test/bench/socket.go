package bench

import (
	"encoding/json"

	"kaged.dev/services/kaged/client"
)

func deltaOf(f client.Frame) (string, error) {
	var p struct{ Delta string }
	err := json.Unmarshal(f.Payload, &p)
	return p.Delta, err
}
