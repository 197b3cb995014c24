package fakellm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"kaged.dev/pkg/llm"
)

// unsignedCall replaces the signature of a call that another model made.
const unsignedCall = "skip_thought_signature_validator"

// googleModel returns the model of a path that ends in models/NAME:streamGenerateContent.
func googleModel(path string) string {
	_, rest, _ := strings.Cut(path, "/v1beta/")
	return strings.TrimPrefix(strings.TrimSuffix(rest, ":streamGenerateContent"), "models/")
}

// googleEncoder writes the stream of Gemini's streamGenerateContent: chunks without names, lines that end in CRLF, and
// no last event. The signature of thinking is sent with the next call, or in an empty text.
type googleEncoder struct {
	*answer
	kind    blockKind
	text    []byte
	pending string // the pending signature
	broken  bool   // whether a call was not a JSON object, which the format does not allow
}

func (e *googleEncoder) header(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("Server-Timing", "gfet4t7; dur=100")
}

// chunk writes a chunk with one candidate. Only the last chunk has the finish reason and the usage.
func (e *googleEncoder) chunk(b []byte, part, finish string) []byte {
	b = append(b, `data: {"candidates": [{"content": {"parts": [`...)
	b = append(b, part...)
	b = append(b, `],"role": "model"}`...)
	b = append(b, finish...)
	b = append(b, `,"index": 0}],"usageMetadata": {`...)
	b = append(b, e.counts(finish != "")...)
	b = append(b, `},"modelVersion": `+quote(e.model)+`,"responseId": "fake01"}`+"\r\n\r\n"...)
	return b
}

func (e *googleEncoder) counts(last bool) string {
	u := e.usage
	if last {
		u = e.used()
	}
	prompt := u.Input + u.CacheRead + u.CacheWrite
	if !last {
		return fmt.Sprintf(`"promptTokenCount": %d,"totalTokenCount": %d`, prompt, prompt)
	}
	said := u.Output - u.Reasoning
	s := fmt.Sprintf(`"promptTokenCount": %d,"candidatesTokenCount": %d,"totalTokenCount": %d`,
		prompt, said, prompt+u.Output)
	if u.CacheRead > 0 {
		s += fmt.Sprintf(`,"cachedContentTokenCount": %d`, u.CacheRead)
	}
	s += fmt.Sprintf(`,"promptTokensDetails": [{"modality": "TEXT","tokenCount": %d}]`, prompt)
	if u.Reasoning > 0 {
		s += fmt.Sprintf(`,"thoughtsTokenCount": %d`, u.Reasoning)
	}
	return s
}

func (e *googleEncoder) begin(b []byte) []byte { return b }

func (e *googleEncoder) ping(b []byte) []byte { return append(b, ": keep-alive\r\n\r\n"...) }

func (e *googleEncoder) open(b []byte, kind blockKind) []byte {
	e.kind, e.text = kind, nil
	return b
}

func (e *googleEncoder) delta(b []byte, text string) []byte {
	e.text = append(e.text, text...)
	if e.kind == thinkingBlock {
		return e.chunk(b, `{"text": `+quote(text)+`,"thought": true}`, "")
	}
	return e.chunk(b, `{"text": `+quote(text)+`}`, "")
}

func (e *googleEncoder) close(b []byte) []byte {
	if e.kind == thinkingBlock {
		b = e.redacted(b, Signature(string(e.text)))
	}
	return b
}

// redacted keeps a signature for the next part; a signature that was already pending gets an empty text.
func (e *googleEncoder) redacted(b []byte, data string) []byte {
	if e.pending != "" {
		b = e.chunk(b, e.emptyText(), "")
	}
	e.pending = data
	return b
}

func (e *googleEncoder) emptyText() string { return `{"text": ""` + e.signature() + `}` }

// signature returns the member that signs a part, once.
func (e *googleEncoder) signature() string {
	if e.pending == "" {
		return ""
	}
	s := `,"thoughtSignature": "` + base64.StdEncoding.EncodeToString([]byte(e.pending)) + `"`
	e.pending = ""
	return s
}

// call writes a whole call. This API never returns input that is not a JSON object: the answer ends as malformed, or is
// cut off before the call.
func (e *googleEncoder) call(b []byte, id, name, input string) []byte {
	var object map[string]json.RawMessage
	args := ""
	switch err := json.Unmarshal([]byte(input), &object); {
	case e.stop == "length" && err != nil:
		return b
	case err != nil && input != "":
		e.broken = true
		return b
	case len(object) > 0:
		args = `,"args": ` + input
	}
	if id != "" {
		id = `,"id": ` + quote(id)
	}
	return e.chunk(b, `{"functionCall": {"name": `+quote(name)+args+id+`}`+e.signature()+`}`, "")
}

// googleStatuses are Google's codes and names for failures inside a stream, by their names in scripts.
var googleStatuses = map[string]struct {
	code   int
	status string
}{
	"overloaded_error": {503, "UNAVAILABLE"}, "server_error": {500, "INTERNAL"},
	"rate_limit_exceeded": {429, "RESOURCE_EXHAUSTED"}, "invalid_request_error": {400, "INVALID_ARGUMENT"},
}

func (e *googleEncoder) failure(b []byte, kind, message string) []byte {
	s, ok := googleStatuses[kind]
	if !ok {
		s.code, s.status = 500, kind
	}
	return append(b, "data: "+googleError(s.code, s.status, message)+"\r\n\r\n"...)
}

func googleError(code int, status, message string) string {
	return fmt.Sprintf(`{"error": {"code": %d,"message": %s,"status": %s}}`, code, quote(message), quote(status))
}

func (e *googleEncoder) finish(b []byte) []byte {
	stop, message := e.stop, ""
	switch stop {
	case "", "stop":
		stop = "STOP"
	case "length":
		stop = "MAX_TOKENS"
	case "content_filter", "refusal":
		stop = "SAFETY"
	}
	if e.broken {
		stop, message = "MALFORMED_FUNCTION_CALL", `,"finishMessage": "Malformed function call"`
	}
	return e.chunk(b, e.emptyText(), `,"finishReason": `+quote(stop)+message)
}

func (e *googleEncoder) shape() string { return fmt.Sprint("google ", e.model, e.counts(false), " ") }

func (e *googleEncoder) skip(_ int, text string) { e.text = append(e.text, text...) }

// googlePart is a part of the Gemini API.
type googlePart struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature string  `json:"thoughtSignature"`
	Call      *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Response struct {
			Output any `json:"output"`
			Error  any `json:"error"`
		} `json:"response"`
	} `json:"functionResponse"`
}

type googleContent struct {
	Role  string       `json:"role"`
	Parts []googlePart `json:"parts"`
}

// googleBody is the parsed part of a request.
type googleBody struct {
	System   googleContent   `json:"systemInstruction"`
	Contents []googleContent `json:"contents"`
	Tools    []struct {
		Functions []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		MaxOutputTokens int `json:"maxOutputTokens"`
	} `json:"generationConfig"`
}

func (r *Request) parseGoogle() error {
	var body googleBody
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	var system []string
	for _, p := range body.System.Parts {
		if p.Text != nil {
			system = append(system, *p.Text)
		}
	}
	r.MaxTokens, r.System = body.Config.MaxOutputTokens, strings.Join(system, "\n\n")
	for _, t := range body.Tools {
		for _, f := range t.Functions {
			r.addTool(f.Name, f.Description, f.Schema)
		}
	}
	for _, c := range body.Contents {
		role := llm.RoleUser
		if c.Role == "model" {
			role = llm.RoleAssistant
		}
		for _, p := range c.Parts {
			if err := r.addGoogle(role, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Request) addGoogle(role llm.Role, p googlePart) error {
	if p.Thought {
		t := &llm.Thinking{Opaque: googleSignature(p.Signature), Driver: string(Google)}
		if p.Text != nil {
			t.Text = *p.Text
		}
		r.add(role, llm.Block{Thinking: t})
		return nil
	}
	r.signGoogle(role, googleSignature(p.Signature))
	switch {
	case p.Text != nil && (*p.Text != "" || p.Signature == ""):
		r.add(role, llm.Block{Text: &llm.Text{Text: *p.Text}})
	case p.Call != nil:
		input := string(p.Call.Args)
		if input == "" {
			input = "{}"
		}
		r.add(role, llm.Block{Call: &llm.ToolCall{ID: p.Call.ID, Name: dottedName(p.Call.Name), Input: input}})
	case p.Response != nil:
		res := p.Response
		content, failed := res.Response.Output, false
		if res.Response.Error != nil {
			content, failed = res.Response.Error, true
		}
		text, ok := content.(string)
		if !ok {
			return fmt.Errorf("the result of %s is no text", res.Name)
		}
		result := &llm.ToolResult{CallID: res.ID, Name: dottedName(res.Name), Content: text, IsError: failed}
		r.add(llm.RoleTool, llm.Block{Result: result})
	}
	return nil
}

// signGoogle gives a signature to the preceding thinking, or to a new one without text.
func (r *Request) signGoogle(role llm.Role, signature []byte) {
	if len(signature) == 0 {
		return
	}
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == role {
		blocks := r.Messages[n-1].Blocks
		if t := blocks[len(blocks)-1].Thinking; t != nil && len(t.Opaque) == 0 {
			t.Opaque = signature
			return
		}
	}
	r.add(role, llm.Block{Thinking: &llm.Thinking{Opaque: signature, Driver: string(Google)}})
}

// googleSignature returns a signature's bytes, nil for an empty one and for the placeholder of a missing one.
func googleSignature(s string) []byte {
	if s == "" || s == unsignedCall {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return []byte(s)
	}
	return data
}

// illegalGoogle checks the rules that only the Gemini API has.
func illegalGoogle(r *Request) string {
	var body googleBody
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err.Error()
	}
	asked := 0 // the last content with a text of the user
	for i, c := range body.Contents {
		if c.Role != "user" && c.Role != "model" {
			return "Please use a valid role: user, model."
		}
		if len(c.Parts) == 0 {
			return fmt.Sprintf("GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
		}
		for j, p := range c.Parts {
			switch {
			case p.Text == nil && p.Call == nil && p.Response == nil:
				return fmt.Sprintf("contents[%d].parts[%d].data: required oneof field 'data' must have one initialized field",
					i, j)
			case p.Call != nil && (c.Role != "model" || i == 0):
				return "Please ensure that function call turn comes immediately after a user turn or after " +
					"a function response turn."
			case p.Text != nil && c.Role == "user":
				asked = i
			}
		}
	}
	if !strings.HasPrefix(r.Model, "gemini-3") {
		return ""
	}
	for i, c := range body.Contents[min(asked, len(body.Contents)):] {
		for j, p := range c.Parts {
			if p.Call == nil {
				continue
			}
			if p.Signature == "" {
				return fmt.Sprintf("Function call is missing a thought_signature in functionCall parts. "+
					"Additional data, function call `%s`, position %d.", p.Call.Name, asked+i+j)
			}
			break // only the first call of a turn is signed
		}
	}
	return ""
}
