// A table that draws only what can be seen, however many rows it has. It is worked
// with the keyboard like any grid: arrows or j and k, Page Up and Down, Home and End,
// Enter to open, Space to select.

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<T> {
  name: string;
  width: string; // a track of a CSS grid
  cell: (row: T) => ComponentChildren;
  wide?: boolean; // left out where there is little room
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  total?: number; // of rows, if that is known
  opened?: string; // the key of the row that is open
  onOpen?: (row: T) => void;
  onEnd?: () => void; // the last rows are near
  onTop?: (atTop: boolean) => void; // the first row came into sight, or went out of it
  selected?: Set<string>;
  onSelect?: (row: T) => void;
  footer?: ComponentChildren;
}

const rowHeight = 32; // px, as in the style sheet
const spare = 12; // rows that are drawn beyond what can be seen
const ahead = 60; // rows before the end at which more are asked for

export function Table<T>(props: Props<T>) {
  const { columns, rows, rowKey, onOpen, onSelect, onEnd, onTop } = props;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(0);
  const current = Math.min(active, rows.length - 1);

  const measure = useCallback(() => {
    const { scrollTop, clientHeight } = box.current!;
    setView((old) => (old.top === scrollTop && old.height === clientHeight ? old : { top: scrollTop, height: clientHeight }));
    onTop?.(scrollTop < rowHeight);
  }, [onTop]);
  useLayoutEffect(() => {
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, [measure]);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - spare);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + spare);
  useEffect(() => {
    if (last + ahead >= rows.length) {
      onEnd?.();
    }
  }, [last, rows.length, onEnd]);

  const move = (to: number) => {
    to = Math.max(0, Math.min(to, rows.length - 1));
    setActive(to);
    const { scrollTop, clientHeight } = box.current!;
    const top = to * rowHeight;
    const room = clientHeight - 2 * rowHeight; // less the header
    if (top < scrollTop) {
      box.current!.scrollTop = top;
    } else if (top > scrollTop + room) {
      box.current!.scrollTop = top - room;
    }
  };
  const page = Math.max(1, Math.floor(view.height / rowHeight) - 2);
  const moves: Record<string, () => void> = {
    ArrowDown: () => move(current + 1), j: () => move(current + 1),
    ArrowUp: () => move(current - 1), k: () => move(current - 1),
    PageDown: () => move(current + page), PageUp: () => move(current - page),
    Home: () => move(0), End: () => move(rows.length - 1),
    Enter: () => rows[current] !== undefined && onOpen?.(rows[current]),
    " ": () => rows[current] !== undefined && onSelect?.(rows[current]),
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const act = moves[event.key];
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (act !== undefined && plain && event.target === box.current) {
      event.preventDefault();
      act();
    }
  };

  return (
    <div class="table" ref={box} role="grid" aria-label={props.label} aria-rowcount={props.total ?? -1} tabIndex={0}
      aria-multiselectable={onSelect === undefined ? undefined : true}
      aria-activedescendant={rows.length > 0 ? `${id}-${current}` : undefined} onScroll={measure} onKeyDown={onKeyDown}>
      <div role="rowgroup" class="table-head">
        <div role="row" class="row" style={tracks(columns, onSelect !== undefined)}>
          {onSelect !== undefined && <div role="columnheader" aria-label="Selected" />}
          {columns.map((column) => (
            <div role="columnheader" key={column.name} class={column.wide ? "wide" : undefined}>{column.name}</div>
          ))}
        </div>
      </div>
      <div role="rowgroup" class="table-body" style={{ height: `${rows.length * rowHeight}px` }}>
        {rows.slice(first, last).map((row, i) => {
          const index = first + i;
          const key = rowKey(row);
          const isSelected = props.selected?.has(key);
          const className = ["row", index === current && "active", key === props.opened && "opened", onOpen && "opens"];
          return (
            <div role="row" id={`${id}-${index}`} key={key} aria-rowindex={index + 2} aria-selected={isSelected}
              class={className.filter(Boolean).join(" ")}
              style={{ ...tracks(columns, onSelect !== undefined), transform: `translateY(${index * rowHeight}px)` }}
              onClick={(event) => {
                if ((event.target as Element).closest("a, button, input") === null) {
                  setActive(index);
                  onOpen?.(row);
                }
              }}>
              {onSelect !== undefined && (
                <div role="gridcell">
                  <input type="checkbox" tabIndex={-1} aria-label={"Select " + key} checked={isSelected} onChange={() => onSelect(row)} />
                </div>
              )}
              {columns.map((column) => (
                <div role="gridcell" key={column.name} class={column.wide ? "wide" : undefined}>{column.cell(row)}</div>
              ))}
            </div>
          );
        })}
      </div>
      {props.footer !== undefined && <div role="rowgroup" class="table-foot"><div role="row"><div role="gridcell">{props.footer}</div></div></div>}
    </div>
  );
}

function tracks<T>(columns: Column<T>[], selectable: boolean) {
  const widths = (list: Column<T>[]) => (selectable ? "28px " : "") + list.map((column) => column.width).join(" ");
  return { "--tracks": widths(columns), "--narrow-tracks": widths(columns.filter((column) => !column.wide)) };
}
