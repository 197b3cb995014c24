package bench

import (
	"encoding/json"

	"kaged.dev/pkg/client"
)

func deltaOf(f client.Frame) (string, error) {
	var p struct{ Delta string }
	err := json.Unmarshal(f.Payload, &p)
	return p.Delta, err
}
