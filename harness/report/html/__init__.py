"""The records as one HTML file that needs no network: tables, and plots drawn by matplotlib as SVG."""
