package record

import (
	"fmt"
	"time"

	"posthaste"
)

// event is the stored form of a posthaste.Event.
type event struct {
	State          uint8  `cbor:"1,keyasint,omitempty"`
	Error          string `cbor:"2,keyasint,omitempty"`
	NextDeliveryAt int64  `cbor:"3,keyasint,omitempty"`
	Status         uint16 `cbor:"4,keyasint,omitempty"`
	Took           uint32 `cbor:"5,keyasint,omitempty"` // ms
}

// states has the stored codes as indexes. Codes are never reused; 0 is invalid.
var states = [...]posthaste.State{
	1: posthaste.StateCreated,
	2: posthaste.StateActive,
	3: posthaste.StateRetry,
	4: posthaste.StateError,
	5: posthaste.StateDelivered,
	6: posthaste.StateFailed,
	7: posthaste.StateCancelRequested,
	8: posthaste.StateCancelled,

	9:  posthaste.StateRunStarted,
	10: posthaste.StateRunSuccess,
	11: posthaste.StateRunFailed,
	12: posthaste.StateRunCancelled,
}

// AppendEvent appends the record of an event without its response, which has its own.
func AppendEvent(dst []byte, e *posthaste.Event) []byte {
	return encode(dst, &event{
		State:          StateCode(e.State),
		Error:          e.Error,
		NextDeliveryAt: toMilli(e.NextDeliveryAt),
		Status:         uint16(e.Attempt.Status),
		Took:           uint32(e.Attempt.Took.Milliseconds()),
	})
}

// DecodeEvent reads what AppendEvent wrote.
func DecodeEvent(data []byte) (e posthaste.Event, err error) {
	var rec event
	if q := newQuick(data); !q.event(&rec) {
		if rec, err = decodeAny[event](data); err != nil {
			return posthaste.Event{}, err
		}
	}
	state, err := StateOf(rec.State)
	if err != nil {
		return posthaste.Event{}, err
	}
	return posthaste.Event{
		State:          state,
		Error:          rec.Error,
		NextDeliveryAt: fromMilli(rec.NextDeliveryAt),
		Attempt:        posthaste.Attempt{Status: int(rec.Status), Took: time.Duration(rec.Took) * time.Millisecond},
	}, nil
}

// StateCode returns a state's code. It panics for an unknown state.
func StateCode(state posthaste.State) uint8 {
	for code, known := range states {
		if code > 0 && known == state {
			return uint8(code)
		}
	}
	panic(fmt.Sprintf("record: state %q cannot be stored", state))
}

// StateOf returns the state of a code.
func StateOf(code uint8) (posthaste.State, error) {
	if code == 0 || int(code) >= len(states) {
		return "", fmt.Errorf("record: state %d is unknown", code)
	}
	return states[code], nil
}
