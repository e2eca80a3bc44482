// The charts of the console: uPlot, in one file.
export { default } from "uplot";
