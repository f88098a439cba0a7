package cron_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"posthaste/internal/cron"
)

// drawnField is one field as the model knows it.
type drawnField struct {
	text   string
	values []int
	star   bool // there is a * without a step
}

func (f drawnField) has(value int) bool { return slices.Contains(f.values, value) }

// drawField draws a list of one to three items with values in [first, last]. The
// names, if any, are those of all these values.
func drawField(first, last int, names ...string) *rapid.Generator[drawnField] {
	return rapid.Custom(func(t *rapid.T) drawnField {
		var field drawnField
		var items []string
		for range rapid.IntRange(1, 3).Draw(t, "items") {
			item := drawItem(t, first, last, names)
			items = append(items, item.text)
			field.values = append(field.values, item.values...)
			field.star = field.star || item.star
		}
		field.text = strings.Join(items, ",")
		return field
	})
}

func drawItem(t *rapid.T, first, last int, names []string) drawnField {
	low := rapid.IntRange(first, last).Draw(t, "low")
	high := rapid.IntRange(low, last).Draw(t, "high")
	step := rapid.IntRange(1, 20).Draw(t, "step")
	spell := func(value int) string {
		if len(names) > 0 && rapid.Bool().Draw(t, "named") {
			return names[value-first]
		}
		return strconv.Itoa(value)
	}
	switch rapid.SampledFrom([]string{"value", "star", "range", "star step", "value step", "range step"}).Draw(t, "kind") {
	case "value":
		return drawnField{text: spell(low), values: []int{low}}
	case "range":
		return drawnField{text: spell(low) + "-" + spell(high), values: count(low, high, 1)}
	case "range step":
		return drawnField{text: fmt.Sprintf("%s-%s/%d", spell(low), spell(high), step), values: count(low, high, step)}
	case "value step":
		return drawnField{text: fmt.Sprintf("%s/%d", spell(low), step), values: count(low, last, step)}
	case "star step":
		return drawnField{text: fmt.Sprintf("*/%d", step), values: count(first, last, step), star: step == 1}
	default:
		return drawnField{text: "*", values: count(first, last, 1), star: true}
	}
}

func count(low, high, step int) []int {
	var values []int
	for value := low; value <= high; value += step {
		values = append(values, value)
	}
	return values
}

// drawnRule is a rule with the part of it that is about dates.
type drawnRule struct {
	rule
	onDate func(wall) bool
}

// drawRule draws all five fields, and what they mean by the definition.
func drawRule() *rapid.Generator[drawnRule] {
	minutes, hours, days := drawField(0, 59), drawField(0, 23), drawField(1, 31)
	months := drawField(1, 12, strings.Fields("jan feb MAR APR may jun Jul Aug sep oct nov dec")...)
	weekdays := drawField(0, 6, strings.Fields("SUN mon Tue wed THU fri Sat")...)
	return rapid.Custom(func(t *rapid.T) drawnRule {
		minute, hour := minutes.Draw(t, "minute"), hours.Draw(t, "hour")
		day, month, weekday := days.Draw(t, "day"), months.Draw(t, "month"), weekdays.Draw(t, "weekday")
		onDate := func(w wall) bool {
			inMonth, inWeek := day.has(w.day), weekday.has(int(w.weekday))
			either := !day.star && !weekday.star && (inMonth || inWeek)
			return month.has(int(w.month)) && (inMonth && inWeek || either)
		}
		return drawnRule{onDate: onDate, rule: rule{
			text:      strings.Join([]string{minute.text, hour.text, day.text, month.text, weekday.text}, " "),
			everyHour: !slices.ContainsFunc(count(0, 23, 1), func(h int) bool { return !hour.has(h) }),
			matches:   func(w wall) bool { return minute.has(w.minute) && hour.has(w.hour) && onDate(w) },
		}}
	})
}

// hasDate reports whether a rule matches on any day of four years, of which one is
// a leap year.
func (r drawnRule) hasDate() bool {
	for at := newYear(2024); at.Before(newYear(2028)); at = at.Add(24 * time.Hour) {
		if r.onDate(wallAt(at, time.UTC)) {
			return true
		}
	}
	return false
}

// TestNextAgreesWithModel compares the next tick after any time, often one near a
// daylight-saving edge, with the definition.
func TestNextAgreesWithModel(t *testing.T) {
	type place struct {
		zone  *time.Location
		edges []time.Time
	}
	var places []place
	for _, name := range []string{"Europe/London", "America/New_York", "Australia/Lord_Howe", "America/Santiago",
		"Africa/Casablanca", "Asia/Tehran", "Antarctica/Troll", "Asia/Kolkata"} {
		zone := loadZone(t, name)
		places = append(places, place{zone, append(edges(zone, newYear(2019), newYear(2032)), newYear(2024))})
	}
	rules := drawRule()
	rapid.Check(t, func(t *rapid.T) {
		rule := rules.Draw(t, "rule")
		place := rapid.SampledFrom(places).Draw(t, "place")
		edge := rapid.SampledFrom(place.edges).Draw(t, "edge")
		after := edge.Add(time.Duration(rapid.Int64Range(-int64(30*time.Hour), int64(30*time.Hour)).Draw(t, "after")))
		schedule, err := cron.Parse("TZ=" + place.zone.String() + " " + rule.text)
		if err != nil {
			if rule.hasDate() {
				t.Fatal(err)
			}
			return
		}
		checkNext(t, rule, place.zone, after, schedule.Next(after))
	})
}

// checkNext proves that a tick is one, and that for three days there is none before
// it.
func checkNext(t *rapid.T, rule drawnRule, zone *time.Location, after, tick time.Time) {
	if !tick.After(after) || !rule.matches(wallAt(tick, zone)) || !tick.Equal(tick.Truncate(time.Minute)) {
		t.Fatalf("%s after %v: %v is no tick", rule.text, after, tick)
	}
	for _, g := range watch(zone, after.Add(-26*time.Hour).Truncate(time.Minute), after.Add(72*time.Hour)) {
		switch {
		case g.at.After(tick):
			return
		case g.at.Equal(tick) && !rule.ticksAt(g):
			t.Fatalf("%s after %v: %v was shown before", rule.text, after, tick)
		case g.at.After(after) && g.at.Before(tick) && rule.ticksAt(g):
			t.Fatalf("%s after %v: %v, want %v", rule.text, after, tick, g.at.In(zone))
		}
	}
}

// TestNextAgreesWithRobfig compares with the library that cron expressions on
// the wire were made for, in UTC, where the two must not differ (contract,
// U-61).
func TestNextAgreesWithRobfig(t *testing.T) {
	rules := drawRule()
	rapid.Check(t, func(t *rapid.T) {
		text := rules.Draw(t, "rule").text
		theirs, err := robfig.ParseStandard(text)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(newYear(2020).Unix(), newYear(2080).Unix()).Draw(t, "after"), 0).UTC()
		ours, err := cron.Parse(text)
		if err != nil {
			if next := theirs.Next(at); !next.IsZero() {
				t.Fatalf("%v, but there is a tick at %v", err, next)
			}
			return
		}
		for range 5 {
			got, want := ours.Next(at), theirs.Next(at)
			if !got.Equal(want) {
				t.Fatalf("%s after %v: %v, want %v", text, at, got, want)
			}
			at = got
		}
	})
}
