package index

import "posthaste"

// CountCheck compares counts with the events that they count, which come after them. Pages of the log
// pass over hours by the counts of a series, so a sum that is right is not enough.
type CountCheck map[countedAs]int64

type countedAs struct {
	countOf
	what uint16
}

// Event notes an event of a message.
func (c CountCheck) Event(m *posthaste.Message, e *posthaste.Event) {
	if !e.State.OfRun() {
		hour := e.Position.Time().UnixMilli() / hourMS * hourMS
		of := countedAs{countOf{m.User, hour, string(appendSeries(nil, m))}, whatOf(e)}
		if n, counted := c[of]; counted {
			c[of] = n - 1
		}
	}
}

// Count notes a count of an hour. What was counted without a value cannot be compared.
func (c CountCheck) Count(user string, hour int64, series string, of StateCount) {
	if series != "" && series[0] == seriesWhole {
		c[countedAs{countOf{user, hour, series}, of.What}] += of.N
	}
}

// TooMany returns, by user, the hours in which a series has fewer events than are counted. With a sum
// that is right, and nothing counted without a value, all counts are right if there are none.
func (c CountCheck) TooMany() map[string]map[int64]bool {
	hours := map[string]map[int64]bool{}
	for of, more := range c {
		if more <= 0 {
			continue
		}
		if hours[of.user] == nil {
			hours[of.user] = map[int64]bool{}
		}
		hours[of.user][of.hour] = true
	}
	return hours
}
