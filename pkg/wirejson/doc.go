// Package wirejson encodes and decodes protobuf messages as JSON, for the HTTP API and the session socket.
//
// Writing:
//
//   - keys are the proto field names, or their (kaged.common.v1.json_key), in the order of the declaration; map keys
//     are sorted, so that the same message always gives the same bytes; there is no indentation and no escaping for
//     HTML;
//   - every number is a JSON number, 64-bit ones too;
//   - an enum value is its name in lower case without the enum's prefix, or its (kaged.common.v1.json_value); a number
//     without a name reads as the zero value's name;
//   - an unset optional field or message is null, and a scalar, list or map is always there, unless the field is marked
//     (kaged.common.v1.omit_empty): then the key is left out while it is unset or empty. Only the set member of a oneof
//     is written;
//   - google.protobuf.Value, Struct and ListValue are the JSON they stand for; bytes are base64; a string that is not
//     UTF-8 gets U+FFFD for each wrong byte. No other well-known type is special;
//   - bytes marked (kaged.common.v1.raw_json) are one JSON value and stand as they are, as a string where they are not
//     JSON; see [Raw].
//
// Reading is strict about types and lenient about fields: a number is never taken from a string nor a string from a
// number, 1.0 is an integer and 1.5 is not, ranges are checked, a key may come once, and keys that the message does not
// know are ignored. null means unset, except where the field is a google.protobuf.Value, which then holds a null and so
// tells null from absent.
package wirejson
