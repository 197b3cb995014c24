package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
)

var english = message.NewPrinter(language.English)

func notJSON(err error) error {
	return fault.Wrap(err, fault.InvalidParams, "The parameters are not one JSON object: %v.", err)
}

// invalid returns an error for the validator's findings, with one sentence and the reason for each field.
func invalid(err error) error {
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return notJSON(err)
	}
	fields := map[string]any{}
	collect(failed, fields)
	total, parts := len(fields), []string{}
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		if i >= maxFields {
			delete(fields, name)
			continue
		}
		why := fields[name].(string)
		if short := shortened(name); short != name {
			delete(fields, name)
			name = short
		}
		fields[name] = shortened(why)
		parts = append(parts, name+": "+shortened(why))
	}
	list := strings.Join(parts, "; ")
	if total > len(parts) {
		list += fmt.Sprintf("; and %d more", total-len(parts))
	}
	return fault.New(fault.InvalidParams, "The parameters do not match the tool's schema: %s.", list).
		With("fields", fields)
}

// The limits of the report of invalid fields, which is for a model: the number of fields and the length of each text.
const (
	maxFields = 16
	maxText   = 300
)

// shortened returns a text cut to the limit.
func shortened(text string) string { return clip.Marked(text, maxText, "...") }

// collect groups the innermost causes of a validation error by field.
func collect(e *jsonschema.ValidationError, fields map[string]any) {
	for _, cause := range e.Causes {
		collect(cause, fields)
	}
	if len(e.Causes) > 0 {
		return
	}
	at := func(name string) string { return strings.Join(append(slices.Clone(e.InstanceLocation), name), ".") }
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			fields[at(name)] = "is required"
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			fields[at(name)] = "is not a parameter"
		}
	default:
		name := strings.Join(e.InstanceLocation, ".")
		if name == "" {
			name = "(input)"
		}
		fields[name] = e.ErrorKind.LocalizedString(english)
	}
}
