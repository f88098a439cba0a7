package openapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
)

//go:embed reference.html
var referenceSource string

// Script lets a reader of the reference try an operation, and shows samples of it.
//
//go:embed reference.js
var Script []byte

// Reference returns the reference of the API as HTML, to stand in a page.
func Reference() (template.HTML, error) {
	d, err := Parse()
	if err != nil {
		return "", err
	}
	layout, err := template.New("reference").Funcs(template.FuncMap{
		"prose": prose, "kind": kind, "members": d.members, "first": first,
	}).Parse(referenceSource)
	if err != nil {
		return "", fmt.Errorf("read the page of the reference: %w", err)
	}
	var text bytes.Buffer
	if err := layout.Execute(&text, struct {
		*Document
		Chapters []chapter
	}{d, d.chapters()}); err != nil {
		return "", fmt.Errorf("make the page of the reference: %w", err)
	}
	return template.HTML(text.String()), nil
}

// first returns the first media type of a body.
func first(b *Body) string {
	if b == nil || len(b.Content) == 0 {
		return ""
	}
	return b.Content[0].Name
}

// chapter is a tag and its operations.
type chapter struct {
	Tag
	Operations []*Operation
}

func (d *Document) chapters() []chapter {
	all := d.Operations()
	chapters := make([]chapter, len(d.Tags))
	for i, tag := range d.Tags {
		chapters[i].Tag = tag
		for _, o := range all {
			if slices.Contains(o.Tags, tag.Name) {
				chapters[i].Operations = append(chapters[i].Operations, o)
			}
		}
	}
	return chapters
}

var quoted = regexp.MustCompile("`([^`]+)`")

// prose returns paragraphs, in which `what stands between such marks` is code.
func prose(text string) template.HTML {
	var html strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		escaped := template.HTMLEscapeString(paragraph)
		html.WriteString("<p>" + quoted.ReplaceAllString(escaped, "<code>$1</code>") + "</p>")
	}
	return template.HTML(html.String())
}

// kind says what values a schema describes, in a few words with links.
func kind(s *Schema) template.HTML {
	switch {
	case s == nil:
		return "any bytes"
	case s.Ref != "":
		name := ComponentName(s.Ref)
		return template.HTML(fmt.Sprintf(`<a href="#%[1]s">%[1]s</a>`, template.HTMLEscapeString(name)))
	case len(s.AnyOf) > 0:
		return joined(s.AnyOf, " or ")
	case len(s.AllOf) > 0:
		return joined(s.AllOf, " and ")
	case s.Items != nil:
		return "array of " + kind(s.Items)
	case s.Additional != nil:
		return "object of " + kind(s.Additional)
	case len(s.Enum) > 0:
		return template.HTML(template.HTMLEscapeString(strings.Join(slices.DeleteFunc(slices.Clone(s.Enum), isEmpty), ", ")))
	case len(s.Properties) > 0:
		var names []string
		for _, p := range s.Properties {
			names = append(names, p.Name)
		}
		return template.HTML("object with " + template.HTMLEscapeString(strings.Join(names, ", ")))
	case len(s.Type) > 0:
		return template.HTML(template.HTMLEscapeString(strings.Join(s.Type, " or ")))
	default:
		return "anything"
	}
}

func isEmpty(text string) bool { return text == "" }

func joined(schemas []*Schema, with string) template.HTML {
	var kinds []string
	for _, s := range schemas {
		kinds = append(kinds, string(kind(s)))
	}
	return template.HTML(strings.Join(kinds, with))
}

// member is a member of an object.
type member struct {
	Name     string
	Required bool
	Schema   *Schema
}

// members returns the members of an object, also those of what it is made of.
func (d *Document) members(s *Schema) []member {
	if s.Ref != "" {
		s, _ = d.Components.Schemas.Get(ComponentName(s.Ref))
	}
	var all []member
	for _, part := range s.AllOf {
		all = append(all, d.members(part)...)
	}
	for _, p := range s.Properties {
		all = append(all, member{p.Name, slices.Contains(s.Required, p.Name), p.Value})
	}
	return all
}
