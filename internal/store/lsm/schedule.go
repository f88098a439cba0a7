package lsm

import (
	"posthaste"
	"posthaste/internal/store/record"
)

var schedules = documents[posthaste.Schedule]{
	kind:   kindSchedule,
	thing:  "schedule",
	encode: record.AppendSchedule,
	decode: record.DecodeSchedule,
}

// read runs a reader while the store is open.
func read[T any](s *Store, reader func() (T, error)) (_ T, err error) {
	done, err := s.reading()
	if err != nil {
		var none T
		return none, err
	}
	defer done(&err)
	return reader()
}
