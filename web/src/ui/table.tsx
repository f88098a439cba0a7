// A table that draws only what can be seen, however many rows it has. It is worked
// with the keyboard like any grid: arrows or j and k, Page Up and Down, Home and End,
// Enter to open, Space to select. Each row is a link.

import type { ComponentChildren, RefObject } from "preact";
import { useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { visit } from "../router";

export interface Column<T> {
  name: string;
  width: string; // a track of a CSS grid
  cell: (row: T) => ComponentChildren;
  wide?: boolean; // left out on narrow screens
  widest?: boolean; // left out where there is not much
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  total?: number; // of rows, if that is known
  opened?: string; // the key of the row that is open
  hrefOf: (row: T) => string; // where a row leads
  below?: (row: T) => ComponentChildren; // a second line of each row, on narrow screens
  onEnd?: () => void; // the last rows are near
  onTop?: (atTop: boolean) => void; // the first row came into sight, or went out of it
  selected?: Set<string>;
  onSelect?: (row: T) => void;
  footer?: ComponentChildren;
}

const spare = 12; // rows that are drawn beyond what can be seen
const ahead = 60; // rows before the end at which more are asked for

export function Table<T>(props: Props<T>) {
  const { columns, rows, rowKey, hrefOf, below, onSelect, onEnd } = props;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const { view, measure } = useView(box, props.onTop);
  const [active, setActive] = useState(0);
  const current = Math.min(active, rows.length - 1);

  const { rowHeight } = view;
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
    scrollTo(box.current!, to, rowHeight);
  };
  const page = Math.max(1, Math.floor(view.height / rowHeight) - 2);
  const keys = movesFrom(current, page, rows.length, move);
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[current];
    const act = event.key === "Enter" ? () => row !== undefined && visit(hrefOf(row)) : event.key === " " ? () => row !== undefined && onSelect?.(row) : keys[event.key];
    if (act !== undefined && event.target === box.current && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  };

  return (
    <div class={below === undefined ? "table" : "table two-lines"} ref={box} role="grid" aria-label={props.label} aria-rowcount={props.total ?? -1} tabIndex={0}
      aria-multiselectable={onSelect === undefined ? undefined : true} style={tracks(columns, onSelect !== undefined)}
      aria-activedescendant={rows.length > 0 ? `${id}-${current}` : undefined} onScroll={measure} onKeyDown={onKeyDown}>
      <Head columns={columns} selectable={onSelect !== undefined} />
      <div role="rowgroup" class="table-body" style={{ height: `${rows.length * rowHeight}px` }}>
        {rows.slice(first, last).map((row, i) => {
          const index = first + i;
          const key = rowKey(row);
          return (
            <Row key={key} id={`${id}-${index}`} name={key} row={row} index={index} top={index * rowHeight} columns={columns} below={below} active={index === current}
              opened={key === props.opened} selected={props.selected?.has(key)} onSelect={onSelect} href={hrefOf(row)} onTouch={setActive} />
          );
        })}
      </div>
      {props.footer !== undefined && <div role="rowgroup" class="table-foot"><div role="row"><div role="gridcell">{props.footer}</div></div></div>}
    </div>
  );
}

// useView returns which part of the rows can be seen, and how high a row is by the style sheet.
function useView(box: RefObject<HTMLDivElement | null>, onTop: ((atTop: boolean) => void) | undefined) {
  const [view, setView] = useState({ top: 0, height: 600, rowHeight: 34 });
  const measure = useCallback(() => {
    const { scrollTop: top, clientHeight: height } = box.current!;
    const rowHeight = parseFloat(getComputedStyle(box.current!.querySelector(".table-body")!).getPropertyValue("--row-height"));
    setView((old) => (old.top === top && old.height === height && old.rowHeight === rowHeight ? old : { top, height, rowHeight }));
    onTop?.(top < rowHeight);
  }, [onTop]);
  useLayoutEffect(() => {
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, [measure]);
  return { view, measure };
}

// scrollTo brings a row into sight, no further than it has to.
function scrollTo(box: HTMLElement, row: number, rowHeight: number): void {
  const top = row * rowHeight;
  const room = box.clientHeight - 2 * rowHeight; // less the header
  if (top < box.scrollTop) {
    box.scrollTop = top;
  } else if (top > box.scrollTop + room) {
    box.scrollTop = top - room;
  }
}

// movesFrom are the keys that move from a row to another.
function movesFrom(current: number, page: number, rows: number, move: (to: number) => void): Record<string, () => void> {
  const down = () => move(current + 1);
  const up = () => move(current - 1);
  return {
    ArrowDown: down, j: down, ArrowUp: up, k: up,
    PageDown: () => move(current + page), PageUp: () => move(current - page),
    Home: () => move(0), End: () => move(rows - 1),
  };
}

function Head<T>({ columns, selectable }: { columns: Column<T>[]; selectable: boolean }) {
  return (
    <div role="rowgroup" class="table-head">
      <div role="row" class="row">
        {selectable && <div role="columnheader" aria-label="Selected" />}
        {columns.map((column) => (
          <div role="columnheader" key={column.name} class={room(column)}>{column.name}</div>
        ))}
      </div>
    </div>
  );
}

interface RowProps<T> {
  id: string;
  name: string;
  row: T;
  index: number;
  top: number; // px
  columns: Column<T>[];
  below: ((row: T) => ComponentChildren) | undefined;
  active: boolean;
  opened: boolean;
  selected: boolean | undefined;
  onSelect: ((row: T) => void) | undefined;
  href: string;
  onTouch: (index: number) => void;
}

const gridRow = { role: "row" } as {}; // a role that types allow no link to have, and browsers do

// Row is a link to what it stands for, as a whole. Tab passes over it: Enter in the table does
// the same.
function Row<T>({ id, name, row, index, top, columns, below, active, opened, selected, onSelect, href, onTouch }: RowProps<T>) {
  return (
    <a {...gridRow} id={id} href={href} tabIndex={-1} draggable={false} aria-rowindex={index + 2} aria-selected={selected}
      class={["row", active && "active", opened && "opened"].filter(Boolean).join(" ")}
      style={{ transform: `translateY(${top}px)` }} onClick={() => onTouch(index)}>
      {onSelect !== undefined && (
        <div role="gridcell">
          <input type="checkbox" tabIndex={-1} aria-label={"Select " + name} checked={selected} onChange={() => onSelect(row)} onClick={(event) => event.stopPropagation()} />
        </div>
      )}
      {columns.map((column) => <div role="gridcell" key={column.name} class={room(column)}>{column.cell(row)}</div>)}
      {below !== undefined && <div role="gridcell" class="below">{below(row)}</div>}
    </a>
  );
}

// room is the class of a cell that is left out where there is too little of it.
function room({ wide, widest }: { wide?: boolean; widest?: boolean }): string | undefined {
  return widest ? "wide widest" : wide ? "wide" : undefined;
}

// tracks are the widths of the columns: of all, and of those that narrower tables have.
function tracks<T>(columns: Column<T>[], selectable: boolean) {
  const widths = (list: Column<T>[]) => (selectable ? "28px " : "") + list.map((column) => column.width).join(" ");
  return { "--tracks": widths(columns), "--middle-tracks": widths(columns.filter((column) => !column.widest)), "--narrow-tracks": widths(columns.filter((column) => !column.wide && !column.widest)) };
}
