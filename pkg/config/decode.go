package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"kaged.dev/pkg/fault"
)

// Duration is a time.Duration that is written as text, such as "90s".
type Duration time.Duration

// UnmarshalText reads a Go duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s or 10m", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes a Go duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// D returns the duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String returns the duration as Go writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// Decode fills into, a pointer to a service's Config holding its defaults, from the file's [services.<service>] table
// and then from the environment. The keys of an embedded struct are in the same table. If into has a method Validate()
// error, Decode calls it last. It fails with bad_request that names the key or the variable.
func (f *File) Decode(service string, into any, getenv func(string) string) error {
	if table, ok := f.Services[service]; ok {
		if key := untimed(reflect.TypeOf(into).Elem(), table); key != nil {
			return fault.New(fault.BadRequest, "%s: [services.%s]: %s: %s", f.Path, service, strings.Join(key, "."), noUnit)
		}
		text, err := toml.Marshal(withoutPlace(table))
		if err != nil {
			return fault.Wrap(err, fault.BadRequest, "%s: [services.%s] cannot be read.", f.Path, service)
		}
		if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(into); err != nil {
			return serviceFault(f.Path, service, err)
		}
	}
	if err := fromEnv(reflect.ValueOf(into).Elem(), EnvName("services", service), getenv); err != nil {
		return err
	}
	if v, ok := into.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return fault.Wrap(err, fault.BadRequest, "[services.%s]: %s", service, fault.From(err).Msg)
		}
	}
	return nil
}

// noUnit is the reason why a number is no [Duration]: TOML would take it as nanoseconds.
const noUnit = `want a time with its unit in quotes, such as "90s"`

// untimed returns the path of the first key of a table, in alphabetical order, that is a [Duration] of the struct t and
// not a text; nil if there is none.
func untimed(t reflect.Type, table map[string]any) []string {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(f.Tag.Get("toml"), ","); key != "" && key != "-" {
			fields[key] = f.Type
		}
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		field, known := fields[key]
		if !known {
			continue
		}
		if field == reflect.TypeFor[Duration]() {
			if _, isText := table[key].(string); !isText {
				return []string{key}
			}
		}
		if inner, isTable := table[key].(map[string]any); isTable && field.Kind() == reflect.Struct {
			if rest := untimed(field, inner); rest != nil {
				return append([]string{key}, rest...)
			}
		}
	}
	return nil
}

// withoutPlace removes the keys of package host: the addresses of a service, of its metrics and probes, and its
// workspace.
func withoutPlace(table map[string]any) map[string]any {
	rest := make(map[string]any, len(table))
	for k, v := range table {
		switch k {
		case "listen", "address", "workspace", "metrics_listen", "probe_listen":
		default:
			rest[k] = v
		}
	}
	return rest
}

func serviceFault(path, service string, err error) error {
	reason := plain(err)
	var strict *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &strict) && len(strict.Errors) > 0:
		reason = fmt.Sprintf("unknown key %q", strings.Join(strict.Errors[0].Key(), "."))
	case errors.As(err, &bad) && len(bad.Key()) > 0:
		reason = strings.Join(bad.Key(), ".") + ": " + reason
	}
	return fault.Wrap(err, fault.BadRequest, "%s: [services.%s]: %s", path, service, reason)
}

// Place returns a service's listen addresses and the address for its clients, from its table and the environment; empty
// if unset. listen is a text or a list of texts, in the environment separated by commas. It fails with bad_request for
// another value.
func (f *File) Place(service string, getenv func(string) string) (listen []string, address string, err error) {
	listen, err = f.listen(service, getenv)
	if v, given := f.Services[service]["address"]; given && err == nil {
		if _, isText := v.(string); !isText {
			err = fault.New(fault.BadRequest, "%s: [services.%s]: address: want a text in quotes.", f.Path, service)
		}
	}
	return listen, f.Value(service, "address", getenv), err
}

func (f *File) listen(service string, getenv func(string) string) (listen []string, err error) {
	wrong := fault.New(fault.BadRequest, "%s: [services.%s]: listen: want \"unix:PATH\", \"host:port\", or a list of "+
		"them.",
		f.Path, service)
	var list []any
	if text := getenv(EnvName("services", service, "listen")); text != "" {
		for part := range strings.SplitSeq(text, ",") {
			list = append(list, strings.TrimSpace(part))
		}
	} else {
		switch v := f.Services[service]["listen"].(type) {
		case nil:
		case []any:
			list = v
		default:
			list = []any{v}
		}
	}
	for _, v := range list {
		text, isText := v.(string)
		if !isText || text == "" && len(list) > 1 || slices.Contains(listen, text) {
			return nil, wrong
		}
		if text != "" {
			listen = append(listen, text)
		}
	}
	return listen, nil
}

// Value returns the text of a key of a service, from its table and the environment, "" if unset.
func (f *File) Value(service, key string, getenv func(string) string) string {
	if v := getenv(EnvName("services", service, key)); v != "" {
		return v
	}
	v, _ := f.Services[service][key].(string)
	return v
}

// EnvName returns the environment variable of a key: KAGED_ and its parts in upper case, joined by "_".
func EnvName(parts ...string) string {
	return "KAGED_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(strings.Join(parts, "_")))
}

func fromEnv(v reflect.Value, prefix string, getenv func(string) string) error {
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		key, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
		if field.Anonymous && field.IsExported() && key == "" { // its keys are in the same table as those of v
			if err := fromEnv(v.Field(i), prefix, getenv); err != nil {
				return err
			}
			continue
		}
		if !field.IsExported() || key == "" || key == "-" {
			continue
		}
		name := prefix + "_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
		if field.Type.Kind() == reflect.Struct {
			if err := fromEnv(v.Field(i), name, getenv); err != nil {
				return err
			}
			continue
		}
		if text := getenv(name); text != "" {
			if err := setText(v.Field(i), text); err != nil {
				return fault.Wrap(err, fault.BadRequest, "The environment variable %s holds %q: %s.", name, text, err)
			}
		}
	}
	return nil
}

func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("want true or false")
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("want a whole number")
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("want a number")
		}
		v.SetFloat(n)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.String {
			return fmt.Errorf("it can be set in the file only")
		}
		v.Set(reflect.ValueOf(strings.Split(text, ",")).Convert(v.Type()))
	default:
		return fmt.Errorf("it can be set in the file only")
	}
	return nil
}
