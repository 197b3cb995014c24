package inspector

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	godap "github.com/google/go-dap"
)

// remote is a value in the runtime's form.
type remote struct {
	Type                string          `json:"type"`
	Subtype             string          `json:"subtype"`
	ClassName           string          `json:"className"`
	Value               json.RawMessage `json:"value"`
	UnserializableValue string          `json:"unserializableValue"`
	Description         string          `json:"description"`
	ObjectID            string          `json:"objectId"`
	Size                *int            `json:"size"`
	Preview             *preview        `json:"preview"`
}

// preview has the first properties of an object.
type preview struct {
	Overflow   bool       `json:"overflow"`
	Properties []property `json:"properties"`
	Entries    []struct {
		Key   *brief `json:"key"`
		Value *brief `json:"value"`
	} `json:"entries"`
}

// property is a property of a preview, brief an entry of a map or set in it.
type property struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

type brief struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

// handle is the object behind a reference to variables.
type handle struct {
	object string
	scope  bool
	this   *remote
	list   bool // an array
	proxy  bool // reading it with code of the language would run code of the program
}

// maxHandles is the maximum number of references of one stop.
const maxHandles = 1 << 18

// refer returns a reference to variables. b.mu is held.
func (b *bridge) refer(h handle) int {
	if h.object == "" || len(b.handles) >= maxHandles {
		return 0
	}
	b.handles = append(b.handles, h)
	return len(b.handles)
}

// text returns a value in the form for people.
func (r *remote) text() string {
	switch {
	case r.Type == "undefined":
		return "undefined"
	case r.Subtype == "null":
		return "null"
	case r.UnserializableValue != "":
		return r.UnserializableValue
	case r.Type == "string":
		return string(r.Value)
	case r.Type == "function":
		line, _, _ := strings.Cut(r.Description, "\n")
		return line
	case r.Subtype == "error" || r.Preview == nil:
		return cmp.Or(r.Description, string(r.Value), r.ClassName)
	}
	name := cmp.Or(r.Description, r.ClassName)
	if r.list() && r.Size != nil {
		name += "(" + strconv.Itoa(r.length()) + ")" // in the notation of Node
	}
	return r.Preview.text(name, r.list())
}

func (r *remote) list() bool { return r.Subtype == "array" || r.Subtype == "typedarray" }

func (p *preview) text(name string, list bool) string {
	var parts []string
	for _, e := range p.Entries {
		part := ""
		if e.Key != nil {
			part = shown(e.Key.Type, e.Key.Description) + " => "
		}
		if e.Value != nil {
			part += shown(e.Value.Type, e.Value.Description)
		}
		parts = append(parts, part)
	}
	for _, x := range p.Properties {
		value := shown(x.Type, x.Value)
		if !list {
			value = x.Name + ": " + value
		}
		parts = append(parts, value)
	}
	if p.Overflow {
		parts = append(parts, "…")
	}
	if list {
		return name + " [" + strings.Join(parts, ", ") + "]"
	}
	return name + " {" + strings.Join(parts, ", ") + "}"
}

// shown returns a value of a preview.
func shown(kind, value string) string {
	switch {
	case kind == "string":
		return quoted(value)
	case value == "":
		return kind
	}
	return value
}

// kind returns the type of a value.
func (r *remote) kind() string {
	if r.Type == "object" && r.Subtype == "null" {
		return "null"
	}
	if r.Type == "object" {
		return cmp.Or(r.ClassName, r.Subtype, "object")
	}
	return r.Type
}

// variable returns a value in the form for the debugger. b.mu is held.
func (b *bridge) variable(name string, r *remote) godap.Variable {
	v := godap.Variable{Name: name, Value: r.text(), Type: r.kind()}
	if r.Type == "object" || r.Type == "function" {
		v.VariablesReference = b.refer(handle{object: r.ObjectID, list: r.list(), proxy: r.Subtype == "proxy"})
	}
	if r.list() {
		v.IndexedVariables = r.length()
	}
	return v
}

var lengthIn = regexp.MustCompile(`\((\d+)\)$`)

// length returns the number of elements of a list, 0 if the runtime does not return it.
func (r *remote) length() int {
	if r.Size != nil {
		return max(0, *r.Size)
	}
	if m := lengthIn.FindStringSubmatch(r.Description); m != nil {
		n, _ := strconv.Atoi(m[1]) // a number that is too large counts as 0
		return n
	}
	return 0
}

// descriptor is a property of an object.
type descriptor struct {
	Name  string          `json:"name"`
	Value *remote         `json:"value"`
	Get   *remote         `json:"get"`
	Own   *bool           `json:"isOwn"`
	Sym   json.RawMessage `json:"symbol"`
}

// descriptors are the properties of an object. Node and bun have different names for the list.
type descriptors struct {
	Result     []descriptor `json:"result"`
	Properties []descriptor `json:"properties"`
	Internal   []descriptor `json:"internalProperties"`
}

var errStale = errors.New("the program has moved on; the reference is of an earlier stop")

// maxElements is the number of elements of a list that are requested by default.
const maxElements = 1000

// pieceOf is a function that returns a part of a list, or of the properties of an object with very many properties.
const pieceOf = `function (first, count) {
	const piece = {}, list = Array.isArray(this) || ArrayBuffer.isView(this);
	const names = list ? null : Object.keys(this);
	if (!list && names.length <= count) return this;
	const length = list ? this.length : names.length;
	for (let i = first; i < length && i < first + count; i++) {
		const name = list ? i : names[i];
		const d = Object.getOwnPropertyDescriptor(this, name);
		if (d) Object.defineProperty(piece, name, d);
	}
	return piece;
}`

// variables lists the parts of a scope or of a value.
func (b *bridge) variables(arguments json.RawMessage) (any, error) {
	var a godap.VariablesArguments
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	b.mu.Lock()
	stop := b.paused
	if stop == nil || a.VariablesReference < 1 || a.VariablesReference > len(b.handles) {
		b.mu.Unlock()
		return nil, errStale
	}
	h := b.handles[a.VariablesReference-1]
	b.mu.Unlock()
	object := h.object
	if !h.scope && !h.proxy {
		var piece struct {
			Result    remote `json:"result"`
			WasThrown bool   `json:"wasThrown"`
		}
		if a.Count <= 0 {
			a.Count = maxElements
		}
		err := b.call("Runtime.callFunctionOn", map[string]any{
			"objectId": object, "functionDeclaration": pieceOf, "silent": true,
			"arguments": []any{map[string]int{"value": max(a.Start, 0)}, map[string]int{"value": a.Count}},
		}, &piece)
		if err == nil && !piece.WasThrown && piece.Result.ObjectID != "" && piece.Result.Subtype != "error" {
			object = piece.Result.ObjectID
		}
	}
	var found descriptors
	err := b.call(b.dialect.properties, map[string]any{
		"objectId": object, "ownProperties": true, "generatePreview": true,
	}, &found)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused != stop {
		return nil, errStale
	}
	return godap.VariablesResponseBody{Variables: b.listed(h, found)}, nil
}

// listed converts the properties of an object to variables. b.mu is held.
func (b *bridge) listed(h handle, found descriptors) []godap.Variable {
	list := []godap.Variable{}
	for _, d := range append(found.Result, found.Properties...) {
		if d.Name == "__proto__" || h.list && d.Name == "length" {
			continue
		}
		name := d.Name
		switch _, err := strconv.Atoi(name); {
		case h.scope:
		case len(d.Sym) > 0:
			name = "[" + name + "]"
		case err == nil:
			name = "[" + name + "]"
		case !identifier.MatchString(name):
			name = "[" + quoted(name) + "]"
		}
		switch {
		case d.Value != nil:
			list = append(list, b.variable(name, d.Value))
		case d.Get != nil && d.Get.Type == "function":
			list = append(list, godap.Variable{Name: name, Value: "(getter)", Type: "accessor"})
		}
	}
	for _, d := range found.Internal {
		if d.Value == nil || strings.HasSuffix(d.Name, "[[Prototype]]") || d.Name == "__proto__" || h.scope {
			continue
		}
		list = append(list, b.variable("["+strings.Trim(d.Name, "[]")+"]", d.Value))
	}
	if h.this != nil {
		list = append(list, b.variable("this", h.this))
	}
	return list
}

var identifier = regexp.MustCompile(`^[\pL_$#][\pL\pN_$]*$`)

// exception is an error of an evaluation.
type exception struct {
	Text      string  `json:"text"`
	Exception *remote `json:"exception"`
}

func (e *exception) text() string {
	text := e.Text
	if e.Exception != nil {
		text = cmp.Or(e.Exception.Description, e.Exception.text(), text)
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// evaluate evaluates an expression in a frame. In the context watch the expression cannot change the program, if the
// runtime can guarantee this.
func (b *bridge) evaluate(arguments json.RawMessage) (any, error) {
	var a struct {
		Expression string `json:"expression"`
		FrameID    int    `json:"frameId"`
		Context    string `json:"context"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	b.mu.Lock()
	stop := b.paused
	if stop == nil || a.FrameID < 0 || a.FrameID >= len(stop.CallFrames) {
		b.mu.Unlock()
		return nil, errRuns
	}
	frame := stop.CallFrames[a.FrameID].CallFrameID
	b.mu.Unlock()
	request := map[string]any{
		"callFrameId": frame, "expression": a.Expression, "silent": true, "generatePreview": true,
		"timeout": evaluateTime.Milliseconds(),
	}
	if b.dialect.pure && a.Context != "repl" {
		request["throwOnSideEffect"] = true
	}
	var result struct {
		Result           remote     `json:"result"`
		WasThrown        bool       `json:"wasThrown"`
		ExceptionDetails *exception `json:"exceptionDetails"`
	}
	if err := b.call("Debugger.evaluateOnCallFrame", request, &result); err != nil {
		return nil, err
	}
	failed := result.ExceptionDetails
	if failed == nil && result.WasThrown {
		failed = &exception{Exception: &result.Result}
	}
	if failed != nil {
		text := failed.text()
		if strings.Contains(text, "Possible side-effect in debug-evaluate") {
			text = "it may change the program, which the context repl is for"
		}
		return nil, fmt.Errorf("the expression fails: %s", text)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused != stop {
		return nil, errStale
	}
	v := b.variable("", &result.Result)
	return godap.EvaluateResponseBody{
		Result: v.Value, Type: v.Type, VariablesReference: v.VariablesReference, IndexedVariables: v.IndexedVariables,
	}, nil
}

// print passes on the output of an attached program.
func (b *bridge) print(params json.RawMessage) {
	var p struct {
		Type    string   `json:"type"`
		Args    []remote `json:"args"`
		Message struct {
			Level      string   `json:"level"`
			Parameters []remote `json:"parameters"`
			Text       string   `json:"text"`
		} `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	var parts []string
	for _, r := range append(p.Args, p.Message.Parameters...) {
		text := r.text()
		if r.Type == "string" {
			_ = json.Unmarshal(r.Value, &text) // a string that cannot be decoded is shown unchanged
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		parts = []string{p.Message.Text}
	}
	category := "stdout"
	if kind := cmp.Or(p.Message.Level, p.Type); kind == "error" || kind == "warning" {
		category = "stderr"
	}
	b.event("output", godap.OutputEventBody{Category: category, Output: strings.Join(parts, " ") + "\n"})
}
