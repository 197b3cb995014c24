package wirejson

import (
	"strconv"

	"google.golang.org/protobuf/proto"
)

// AppendFrame appends a frame of a socket, {"channel","seq","type","payload"}, to dst and returns the extended
// slice; see [Append] for the payload and the error.
func AppendFrame(dst []byte, channel string, seq int64, frameType string, payload proto.Message) ([]byte, error) {
	start := len(dst)
	dst = append(dst, `{"channel":`...)
	dst = AppendString(dst, channel)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendInt(dst, seq, 10)
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, frameType)
	dst = append(dst, `,"payload":`...)
	dst, err := Append(dst, payload)
	if err != nil {
		return dst[:start], err
	}
	return append(dst, '}'), nil
}
