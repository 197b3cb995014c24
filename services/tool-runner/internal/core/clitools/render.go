package clitools

import (
	"strconv"
	"strings"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// argv returns the program and its arguments for values that the schema has accepted. It fails with invalid_params that
// names the parameter for a value that is not a valid argument or would become an option.
func (d Deps) argv(c *dsl.Command, values tool.Values) ([]string, error) {
	r := renderer{command: c, values: values, limit: d.Limits.ValueBytes, out: []string{c.Program}}
	r.add(c.Args)
	for _, optional := range c.Optional {
		if given(c, optional, values) {
			r.add(optional.Args)
		}
	}
	return r.out, r.err
}

// given reports whether a call includes the arguments of an optional parameter.
func given(c *dsl.Command, optional dsl.OptionalArgs, values tool.Values) bool {
	value, ok := values[optional.Parameter]
	if flag, isFlag := value.(bool); isFlag && !mentions(optional) {
		return flag
	}
	return ok
}

// mentions reports whether the arguments of a parameter contain its value.
func mentions(optional dsl.OptionalArgs) bool {
	for _, t := range optional.Args {
		for _, part := range t {
			if part.Parameter == optional.Parameter {
				return true
			}
		}
	}
	return false
}

// renderer inserts values into arguments up to the first invalid one.
type renderer struct {
	command *dsl.Command
	values  tool.Values
	limit   int
	out     []string
	// ended means that an argument -- has ended the options.
	ended bool
	err   error
}

func (r *renderer) add(args []dsl.Template) {
	for _, t := range args {
		if r.err != nil {
			return
		}
		arg := r.render(t)
		r.ended = r.ended || len(t) == 1 && t[0].Text == "--"
		r.out = append(r.out, arg)
	}
}

func (r *renderer) render(t dsl.Template) string {
	var b strings.Builder
	for _, part := range t {
		b.WriteString(part.Text)
		if part.Parameter == "" {
			continue
		}
		value := argument(r.values[part.Parameter])
		switch {
		case strings.ContainsRune(value, 0):
			r.refuse(part.Parameter, "holds a NUL")
		case len(value) > r.limit:
			r.refuse(part.Parameter, "is longer than "+strconv.Itoa(r.limit)+" bytes")
		case !r.ended && !r.parameter(part.Parameter).Fixed():
			r.optionless(part.Parameter, b.String(), value)
		}
		b.WriteString(value)
	}
	return b.String()
}

// optionless refuses a free value that would make an argument an option, or select the option. before is the part of
// the argument before the value.
func (r *renderer) optionless(parameter, before, value string) {
	_, text := r.values[parameter].(string)
	switch {
	case before == "" && strings.HasPrefix(value, "-"):
		r.refuse(parameter, "would begin an argument with a hyphen, which the program would take for an option")
	case text && value != "" && strings.HasPrefix(before, "-") && !strings.Contains(before, "="):
		r.refuse(parameter, "would choose which option the argument is")
	}
}

func (r *renderer) parameter(name string) *dsl.CommandParameter {
	for i := range r.command.Parameters {
		if r.command.Parameters[i].Name == name {
			return &r.command.Parameters[i]
		}
	}
	return &dsl.CommandParameter{} // the file's validation guarantees that it exists
}

func (r *renderer) refuse(parameter, why string) {
	if r.err == nil {
		r.err = fault.New(fault.InvalidParams, "The value of %s %s.", parameter, why).With("field", parameter).
			With("fields", map[string]any{parameter: why})
	}
}

// argument formats a value for an argument. An integer has no fraction, however it was written.
func argument(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}
