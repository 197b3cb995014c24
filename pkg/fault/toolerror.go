package fault

import (
	"bytes"
	"encoding/json"
	"strings"

	"kaged.dev/pkg/structs"
)

// rpcFailed is the default JSON-RPC number of a tool error.
const rpcFailed = -32000

// ToolError formats e for the model, in place of a tool's result:
//
//	{"error":{"code":"file_not_found","message":"…","hint":"…","details":{},"rpc_code":-32000}}
//
// A detail without a JSON form is written as text.
func (e *Error) ToolError() string {
	type object struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Hint    string         `json:"hint,omitempty"`
		Details map[string]any `json:"details"`
		RPCCode int32          `json:"rpc_code"`
	}
	o := object{
		Code: e.Code.String(), Message: e.Msg, Hint: e.Code.Hint(), Details: e.Details, RPCCode: e.Code.Spec().GetRpc(),
	}
	if o.Details == nil {
		o.Details = map[string]any{}
	}
	if o.RPCCode == 0 {
		o.RPCCode = rpcFailed
	}
	text, err := encode(map[string]object{"error": o})
	if err != nil {
		o.Details = structs.Of(e.Details).AsMap()
		text, _ = encode(map[string]object{"error": o}) // the object holds texts, numbers and plain values
	}
	return text
}

func encode(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
