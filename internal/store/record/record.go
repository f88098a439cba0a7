// Package record has the stored form of messages, events, responses and a user's other data, for
// all backends.
//
// A record is a version byte and a CBOR map with small integers as keys. Keys are never reused.
// Zero fields are omitted and unknown keys ignored, so fields can be added without a new version.
// Backend keys, such as id and user, are not in the record. Times are Unix milliseconds (0:
// none), durations nanoseconds, texts arbitrary bytes.
//
// Decoding rejects anything else with an error, copies what it keeps, and needs memory
// proportional to the data.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// version is the first byte of a record. It changes when a field changes its meaning, not when
// one is added.
const version = 1

// Decoding limits, far above what clients can send: a message nests a level per callback, and its
// longest list has two elements per header line.
const (
	maxNesting  = 256
	maxElements = 1 << 22
)

var (
	errEmpty     = errors.New("record: no data")
	errNoMap     = errors.New("record: not a map")
	errMessageID = errors.New("record: a message id has the wrong length")
	errFailures  = errors.New("record: failures are not pairs")
	errEndpoints = errors.New("record: endpoints are not pairs")
	errHeader    = errors.New("record: header is not a list of ascending names and their values")
)

var encoder = func() cbor.UserBufferEncMode {
	mode, err := cbor.EncOptions{
		IndefLength: cbor.IndefLengthForbidden,
		TagsMd:      cbor.TagsForbidden,
	}.UserBufferEncMode()
	if err != nil {
		panic(err) // the options contradict each other
	}
	return mode
}()

var decoder = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
		UTF8:             cbor.UTF8DecodeInvalid,
		MaxNestedLevels:  maxNesting,
		MaxArrayElements: maxElements,
		MaxMapPairs:      maxElements,
	}.DecMode()
	if err != nil {
		panic(err) // the options contradict each other
	}
	return mode
}()

// encode appends a record.
func encode(dst []byte, record any) []byte {
	buffer := bytes.NewBuffer(append(dst, version))
	if err := encoder.MarshalToBuffer(record, buffer); err != nil {
		panic(err) // a record type has a field that CBOR cannot express
	}
	return buffer.Bytes()
}

// decode decodes a record of encode.
func decode(data []byte, record any) error {
	switch {
	case len(data) < 2:
		return errEmpty
	case data[0] != version:
		return fmt.Errorf("record: version %d, this program reads version %d", data[0], version)
	case data[1]>>majorShift != majorMap:
		return errNoMap // CBOR would take null for an empty map
	}
	if err := decoder.Unmarshal(data[1:], record); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// decodeAny decodes a record of encode into a new T.
func decodeAny[T any](data []byte) (record T, err error) {
	err = decode(data, &record)
	return record, err
}

func toMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
