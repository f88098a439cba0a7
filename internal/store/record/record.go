// Package record owns the stored form of messages, events, responses and the
// other things a user has. All backends share it.
//
// A record is a version byte and a CBOR map whose keys are small integers. The
// keys are the stored form: a number is never given to another field, also when
// its own is gone. A field that is zero is left out, and a reader passes over
// keys it does not know, so fields may be added without a new version.
//
// What a backend keeps in its keys is not repeated in the record: the id and
// the user of a message, the position and the message id of an event. Times are
// Unix milliseconds with 0 for none, durations are nanoseconds, and texts hold
// the bytes that were given, UTF-8 or not.
//
// Decoding refuses what is no record of this version with an error, copies what
// it keeps, and needs memory in proportion to the data.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// version is the first byte of every record. A record whose fields changed their
// meaning needs a new one; an added field does not.
const version = 1

// What a decoder accepts. Both bounds are far above anything that is accepted
// from a client: a message nests a level for each callback of a callback, and
// its longest list has two elements for each header line.
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

// encode appends a record to dst.
func encode(dst []byte, record any) []byte {
	buffer := bytes.NewBuffer(append(dst, version))
	if err := encoder.MarshalToBuffer(record, buffer); err != nil {
		panic(err) // a record type has a field that CBOR cannot express
	}
	return buffer.Bytes()
}

// decode reads a record that encode made.
func decode(data []byte, record any) error {
	switch {
	case len(data) < 2:
		return errEmpty
	case data[0] != version:
		return fmt.Errorf("record: version %d, this program reads version %d", data[0], version)
	case data[1]>>5 != majorMap:
		return errNoMap // CBOR would take null for an empty map
	}
	if err := decoder.Unmarshal(data[1:], record); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// majorMap is the CBOR major type of maps, in the upper three bits of the first
// byte.
const majorMap = 5

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
