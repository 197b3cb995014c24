package workbench

import (
	"bytes"
	"encoding/json"
	"strings"

	"kaged.dev/pkg/fault"
)

// rpcFailed is the JSON-RPC number of an error that has none of its own.
const rpcFailed = -32000

// Failure renders an error as the dispatcher renders a tool's.
func Failure(err error) string {
	type object struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Hint    string         `json:"hint,omitempty"`
		Details map[string]any `json:"details"`
		RPCCode int32          `json:"rpc_code"`
	}
	f := fault.From(err)
	o := object{f.Code.String(), f.Msg, f.Code.Hint(), f.Details, f.Code.Spec().GetRpc()}
	if o.Details == nil {
		o.Details = map[string]any{}
	}
	if o.RPCCode == 0 {
		o.RPCCode = rpcFailed
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(map[string]object{"error": o}) != nil {
		// Details are plain values wherever a fault comes from a tool runner; without them it can always be rendered.
		o.Details = map[string]any{}
		b.Reset()
		_ = enc.Encode(map[string]object{"error": o})
	}
	return strings.TrimSuffix(b.String(), "\n")
}
